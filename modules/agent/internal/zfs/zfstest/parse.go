package zfstest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// failure is what a program says, and its exit code.
type failure struct {
	text string
	code int
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, args ...any) error {
	return &failure{fmt.Sprintf(format, args...), code}
}

// usage is the refusal of a command line. Of the help that follows only the first
// line is modelled.
func usage(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if text != "" {
		text += "\n"
	}
	return fail(2, "%susage:", text)
}

// line is a parsed command line.
type line struct {
	flags    map[byte]bool
	values   map[byte][]string
	operands []string
}

// getopt parses as GNU getopt does: options may come behind operands, and "--"
// ends them. spec has the letters, those with a value followed by ":".
func getopt(args []string, spec string) (line, error) {
	l := line{flags: map[byte]bool{}, values: map[byte][]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			l.operands = append(l.operands, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			l.operands = append(l.operands, arg)
			continue
		}
		for j := 1; j < len(arg); j++ {
			at := strings.IndexByte(spec, arg[j])
			if at < 0 {
				return line{}, usage("invalid option '%c'", arg[j])
			}
			if at+1 == len(spec) || spec[at+1] != ':' {
				l.flags[arg[j]] = true
				continue
			}
			value := arg[j+1:]
			if value == "" {
				if i++; i == len(args) {
					return line{}, usage("missing argument for '%c' option", arg[j])
				}
				value = args[i]
			}
			l.values[arg[j]] = append(l.values[arg[j]], value)
			break
		}
	}
	return l, nil
}

// bytesOf reads a size with a suffix such as M.
func bytesOf(text string) (int64, error) {
	digits := strings.TrimRight(text, "BKMGTPEZbkmgtpezxX")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("bad numeric value '%s'", text)
	}
	suffix := strings.ToUpper(text[len(digits):])
	shift := 0
	if suffix != "" {
		at := strings.IndexByte("BKMGTPE", suffix[0])
		if at < 0 || len(suffix) > 2 {
			return 0, fmt.Errorf("invalid numeric suffix '%s'", text[len(digits):])
		}
		shift = 10 * at
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("numeric value is too large")
	}
	return n << shift, nil
}

// badName says what ZFS has against a name, or "".
func badName(name string, snapshot bool) string {
	if len(name) > 255 {
		return "name is too long"
	}
	head, snap, isSnap := strings.Cut(name, "@")
	switch {
	case isSnap && !snapshot:
		return "snapshot delimiter '@' is not expected here"
	case isSnap && strings.Contains(snap, "/"):
		return "trailing slash in name"
	case strings.Contains(name, "#"):
		return "bookmark delimiter '#' is not expected here"
	case strings.HasSuffix(head, "/"):
		return "trailing slash in name"
	case strings.Contains(head, "//"):
		return "empty component or misplaced '@' or '#' delimiter in name"
	}
	for i := range len(name) {
		if c := name[i]; !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.: /@", rune(c)) || c >= 0x80 {
			if c == '%' {
				return "invalid character % in name" // zfs prints its own text with printf
			}
			return fmt.Sprintf("invalid character '%s' in name", string([]byte{c}))
		}
	}
	for _, part := range strings.Split(head, "/") {
		switch part {
		case ".":
			return "self reference, '.' is found in name"
		case "..":
			return "parent reference, '..' is found in name"
		}
	}
	return ""
}
