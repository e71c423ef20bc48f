package release

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Edit is a line of a file that changes. Old is empty for a line that is new.
type Edit struct{ File, Old, New string }

// Edits are changes of files that nobody has written yet.
type Edits struct {
	root    string
	content map[string]string
	List    []Edit
}

func newEdits(root string) *Edits { return &Edits{root: root, content: map[string]string{}} }

// read gives a file as the edits up to now leave it.
func (e *Edits) read(file string) (string, error) {
	if text, ok := e.content[file]; ok {
		return text, nil
	}
	raw, err := os.ReadFile(filepath.Join(e.root, filepath.FromSlash(file)))
	return string(raw), err
}

// replace changes old into now, words that stand in exactly one line of the file.
func (e *Edits) replace(file, old, now string) error {
	text, err := e.read(file)
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)(?:^|[\s,{/])(`+regexp.QuoteMeta(old)+`)(?:$|[\s,}])`).FindAllStringSubmatchIndex(text, -1)
	if len(found) != 1 {
		return fmt.Errorf("%s: %d places say %q, want one", file, len(found), old)
	}
	from, to := found[0][2], found[0][3]
	changed := text[:from] + now + text[to:]
	e.set(file, changed, lineAt(text, from), lineAt(changed, from))
	return nil
}

// set records a change of a line.
func (e *Edits) set(file, text, old, now string) {
	e.content[file] = text
	e.List = append(e.List, Edit{File: file, Old: old, New: now})
}

// Print lists the changes as a diff without context would.
func (e *Edits) Print(out io.Writer) {
	last := ""
	for _, edit := range e.List {
		if edit.File != last {
			fmt.Fprintln(out, edit.File)
		}
		last = edit.File
		if edit.Old != "" {
			fmt.Fprintf(out, "  - %s\n", edit.Old)
		}
		fmt.Fprintf(out, "  + %s\n", edit.New)
	}
}

// Write writes the files.
func (e *Edits) Write() error {
	for _, file := range slices.Sorted(maps.Keys(e.content)) {
		if err := os.WriteFile(filepath.Join(e.root, filepath.FromSlash(file)), []byte(e.content[file]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lineAt is the line of the text that holds the byte at this place.
func lineAt(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[begin:], "\n")
	return strings.TrimSpace(line)
}
