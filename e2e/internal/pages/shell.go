package pages

import (
	"fmt"
	"strings"
)

// Command is a command of a block, without redirections and variables before it.
type Command struct {
	// Line is where it begins in its document.
	Line  int
	Words []string
	// Input is the text of a here-document; empty when there is none.
	Input string
}

// Commands splits a block of shell as far as documents use it: words in quotes, lines
// that go on, pipes, lists, comments and here-documents.
func (b Block) Commands() ([]Command, error) {
	var commands []Command
	lines := strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		at, line := b.Line+i, lines[i]
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + lines[i]
		}
		found, end, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", b.File, at, err)
		}
		var input strings.Builder
		for end != "" {
			if i++; i >= len(lines) {
				return nil, fmt.Errorf("%s:%d: no %s ends the here-document", b.File, at, end)
			}
			if lines[i] == end {
				break
			}
			input.WriteString(lines[i] + "\n")
		}
		for n, words := range found {
			c := Command{Line: at, Words: words}
			if n == len(found)-1 {
				c.Input = input.String()
			}
			commands = append(commands, c)
		}
	}
	return commands, nil
}

// split splits a line into commands, and says which word ends its here-document.
func split(line string) (commands [][]string, end string, err error) {
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	endWord := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	endCommand := func() {
		endWord()
		if words, end = tidy(words, end); len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
scan:
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == '#' && !started:
			break scan
		case r == ' ' || r == '\t':
			endWord()
		case r == '|' || r == ';' || r == '&':
			endCommand()
		default:
			started = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, "", fmt.Errorf("a quotation %c has no end", quote)
	}
	endCommand()
	return commands, end, nil
}

// tidy takes redirections and variables off a command.
func tidy(words []string, end string) (kept []string, endOfInput string) {
	endOfInput = end
	for i := 0; i < len(words); i++ {
		name, _, isVariable := strings.Cut(words[i], "=")
		switch word := words[i]; {
		case strings.HasPrefix(word, "<<"):
			endOfInput = strings.TrimPrefix(word, "<<")
		case word == ">" || word == ">>" || word == "<":
			i++
		case len(kept) == 0 && isVariable && name == strings.ToUpper(name):
		default:
			kept = append(kept, word)
		}
	}
	return kept, endOfInput
}
