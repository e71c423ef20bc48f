// Package debian gets software from the Debian mirror the host itself uses,
// without changing the host's own package configuration.
package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one archive: a mirror and the suites taken from it.
type Source struct {
	// URI is the mirror.
	URI string
	// Suites are releases, such as "bookworm" and "bookworm-updates".
	Suites []string
	// Components are those taken beside "main".
	Components []string
	// SignedBy is the path of the keyring, empty for apt's default ones.
	SignedBy string
}

// ParseSources reads a sources file in either of apt's formats: one line for
// each source (*.list) or deb822 paragraphs (*.sources). Only binary sources
// that offer the component "main" are returned.
func ParseSources(name string, text io.Reader) ([]Source, error) {
	if strings.HasSuffix(name, ".sources") {
		return parseParagraphs(text)
	}
	return parseLines(text)
}

// HostSources returns what is configured below root ("/" for this host).
func HostSources(root string) ([]Source, error) {
	files, err := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d/*"))
	if err != nil {
		return nil, err
	}
	var all []Source
	for _, path := range append([]string{filepath.Join(root, "etc/apt/sources.list")}, files...) {
		if ext := filepath.Ext(path); ext != ".list" && ext != ".sources" {
			continue
		}
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read package sources: %w", err)
		}
		sources, err := ParseSources(path, file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("read package sources %s: %w", path, err)
		}
		all = append(all, sources...)
	}
	return all, nil
}

// ForRelease picks the sources of one Debian release out of the host's, and
// adds its backports from the mirror that has the release itself. Components are
// those wanted beside "main", whether the host uses them or not.
func ForRelease(host []Source, codename string, components ...string) ([]Source, error) {
	var picked []Source
	hasRelease := false
	for _, source := range host {
		suites := slices.DeleteFunc(slices.Clone(source.Suites), func(suite string) bool {
			return suite != codename && suite != codename+"-updates" && suite != codename+"-security"
		})
		if len(suites) == 0 {
			continue
		}
		if slices.Contains(suites, codename) && !hasRelease {
			hasRelease = true
			suites = append(suites, codename+"-backports")
		}
		picked = append(picked, Source{URI: source.URI, Suites: suites, Components: components, SignedBy: source.SignedBy})
	}
	if !hasRelease {
		return nil, fmt.Errorf("the host's package sources have no suite %q; the lab's guests are made of Debian %s from the host's mirror", codename, codename)
	}
	return picked, nil
}

// Format renders sources in the one-line format.
func Format(sources []Source) string {
	var text strings.Builder
	for _, source := range sources {
		option := ""
		if source.SignedBy != "" {
			option = "[signed-by=" + source.SignedBy + "] "
		}
		for _, suite := range source.Suites {
			components := strings.Join(append([]string{"main"}, source.Components...), " ")
			fmt.Fprintf(&text, "deb %s%s %s %s\n", option, source.URI, suite, components)
		}
	}
	return text.String()
}

func parseLines(text io.Reader) ([]Source, error) {
	var sources []Source
	scanner := bufio.NewScanner(text)
	for scanner.Scan() {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "deb ")
		if !ok {
			continue
		}
		var source Source
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
			for _, option := range strings.Fields(options) {
				if value, ok := strings.CutPrefix(option, "signed-by="); ok {
					source.SignedBy = value
				}
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if len(fields) < 3 || !slices.Contains(fields[2:], "main") {
			continue
		}
		source.URI, source.Suites = fields[0], fields[1:2]
		sources = append(sources, source)
	}
	return sources, scanner.Err()
}

func parseParagraphs(text io.Reader) ([]Source, error) {
	var sources []Source
	fields := map[string]string{}
	flush := func() {
		types, components := strings.Fields(fields["types"]), strings.Fields(fields["components"])
		if slices.Contains(types, "deb") && slices.Contains(components, "main") && strings.ToLower(fields["enabled"]) != "no" {
			for _, uri := range strings.Fields(fields["uris"]) {
				sources = append(sources, Source{URI: uri, Suites: strings.Fields(fields["suites"]), SignedBy: signedBy(fields["signed-by"])})
			}
		}
		fields = map[string]string{}
	}
	scanner := bufio.NewScanner(text)
	last := ""
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += " " + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return sources, scanner.Err()
}

// signedBy returns the keyring's path; a key given in the file itself, which
// the one-line format cannot carry, is left to apt's default keyrings.
func signedBy(value string) string {
	if strings.HasPrefix(value, "/") {
		return value
	}
	return ""
}
