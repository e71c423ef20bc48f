package release

import (
	"fmt"
	"strings"
	"time"
)

// heading is the line that begins the newest section of a changelog.
type heading struct {
	// line is the heading without its end of line, at is where it begins.
	line string
	at   int
	// version and date are empty where the heading has none: the section is of a
	// version that is not released yet.
	version, date string
}

// newest finds the newest section of a changelog.
func newest(text string) (heading, error) {
	at := 0
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if !strings.HasPrefix(trimmed, "## ") {
			at += len(line)
			continue
		}
		found := section.FindStringSubmatch(trimmed)
		if found == nil {
			return heading{}, fmt.Errorf("%q is neither [Unreleased] nor a version", trimmed)
		}
		h := heading{line: strings.TrimRight(line, "\r\n"), at: at, version: found[1]}
		switch {
		case found[1] == "Unreleased":
			h.version = found[2]
		case isDate(found[2]):
			h.date = found[2]
		}
		return h, nil
	}
	return heading{}, fmt.Errorf("it has no section")
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// openSection lets the newest section be of the version that is to come: the one
// that is not released yet, or a new one above the last release.
func openSection(text, version string) (changed string, had heading, now string, err error) {
	h, err := newest(text)
	if err != nil {
		return "", heading{}, "", err
	}
	now = "## [Unreleased] " + strings.TrimPrefix(version, "v")
	if h.date != "" {
		return text[:h.at] + now + "\n\n" + text[h.at:], heading{}, now, nil
	}
	return text[:h.at] + now + text[h.at+len(h.line):], h, now, nil
}

// closeSection gives the newest section the date on which its version is released.
func closeSection(text, version string, date time.Time) (changed string, had heading, now string, err error) {
	h, err := newest(text)
	if err != nil {
		return "", heading{}, "", err
	}
	want := strings.TrimPrefix(version, "v")
	if h.date != "" {
		return "", heading{}, "", fmt.Errorf("%q is released already", h.line)
	}
	if h.version != "" && h.version != want {
		return "", heading{}, "", fmt.Errorf("%q is not of %s", h.line, version)
	}
	now = fmt.Sprintf("## [%s] - %s", want, date.Format(time.DateOnly))
	return text[:h.at] + now + text[h.at+len(h.line):], h, now, nil
}

// releasedSection is the text of the newest section, which is to be of a version
// that is released.
func releasedSection(text, version string) (string, error) {
	h, err := newest(text)
	if err != nil {
		return "", err
	}
	want := strings.TrimPrefix(version, "v")
	if h.version != want || h.date == "" {
		return "", fmt.Errorf("the newest section is %q, want \"## [%s] - YYYY-MM-DD\"", h.line, want)
	}
	body, _, _ := strings.Cut(text[h.at+len(h.line):], "\n## ")
	if !strings.Contains(body, "\n- ") {
		return "", fmt.Errorf("section %q names no change: want a list of at least one", h.line)
	}
	return strings.TrimSpace(body), nil
}
