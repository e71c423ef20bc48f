// Package redact takes out of texts and objects whatever looks like a secret. It
// rather takes too much: what it leaves is sent to strangers.
package redact

import (
	"regexp"
	"strings"
)

// Mark stands where something was taken out.
const Mark = "[REDACTED]"

// secretWord is in names of what must not be seen.
const secretWord = `(?:passw(?:or)?d|passphrase|secret|token|credential|private[-_]?key|api[-_]?key|access[-_]?key|dhchap[-_a-z]*key|psk|authorization)`

// forms are secrets that their own form gives away.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`DHHC-1:[0-9]{2}:[A-Za-z0-9+/=]+:?`),
	regexp.MustCompile(`NVMeTLSkey-1:[0-9]{2}:[A-Za-z0-9+/=]+:?`),
	regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`),
	regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`),
	regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}`),
}

var (
	// scheme matches an HTTP credential, userinfo that of a URL.
	scheme   = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	userinfo = regexp.MustCompile(`(://)[^/\s:@]*:[^/\s@]+@`)
	// assignment matches a name and a value in logs, flags, JSON and YAML.
	assignment = regexp.MustCompile(`(?i)([\w.-]*` + secretWord + `[\w.-]*\\?["']?\s*[:=]\s*)(\\"(?:[^"\\]|\\\\\\"|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'}\])]+)`)

	secretName = regexp.MustCompile(`(?i)` + secretWord)
	// reference matches names of what only names a secret.
	reference = regexp.MustCompile(`(?i)(?:name|namespace|ref|names)$`)
)

// Text takes secrets out of a text.
func Text(text string) string {
	for _, form := range forms {
		text = form.ReplaceAllString(text, Mark)
	}
	text = scheme.ReplaceAllString(text, "$1 "+Mark)
	text = userinfo.ReplaceAllString(text, "$1"+Mark+"@")
	return assignment.ReplaceAllStringFunc(text, func(match string) string {
		parts := assignment.FindStringSubmatch(match)
		return parts[1] + Mark
	})
}

// Object takes secrets out of a decoded JSON object, in place, and what says
// nothing to a reader: managed fields, and the copy that kubectl keeps.
func Object(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	fields(object)
}

func fields(object map[string]any) {
	// An environment variable has its name beside its value.
	if name, ok := object["name"].(string); ok && secret(name) {
		if _, ok := object["value"].(string); ok {
			object["value"] = Mark
		}
	}
	for key, value := range object {
		if text, ok := value.(string); ok && text != "" && secret(key) {
			object[key] = Mark
			continue
		}
		object[key] = walk(value)
	}
}

func secret(name string) bool { return secretName.MatchString(name) && !reference.MatchString(name) }

func walk(value any) any {
	switch v := value.(type) {
	case string:
		return Text(v)
	case map[string]any:
		fields(v)
	case []any:
		for i := range v {
			// A flag has its value in the next argument.
			if i > 0 && isFlag(v[i-1]) {
				if _, ok := v[i].(string); ok {
					v[i] = Mark
					continue
				}
			}
			v[i] = walk(v[i])
		}
	}
	return value
}

func isFlag(value any) bool {
	text, ok := value.(string)
	return ok && strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && secret(text)
}
