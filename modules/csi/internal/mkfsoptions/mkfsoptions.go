// Package mkfsoptions is the grammar of the StorageClass parameter
// mkfs-options: what an administrator may change about the filesystem of a new
// volume.
//
// It is an allow-list of geometry and features. Nothing in it can name a path,
// a label, a UUID or a device, discard or overwrite anything, or turn a check
// off: those are decided by DISTORT (design.md §4, §7).
package mkfsoptions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid: the text is not a list of allowed options.
var ErrInvalid = errors.New("invalid mkfs options")

// maxLength bounds the text in bytes.
const maxLength = 512

// option is one flag of mkfs: either one number, or suboptions key=number.
type option struct {
	value      *numbers
	suboptions map[string]numbers
}

// numbers are the values that may follow.
type numbers struct {
	min, max int64
	// oneOf narrows the range when not empty.
	oneOf []int64
	// bytes allows the suffixes k, m and g.
	bytes bool
}

var powers = numbers{oneOf: []int64{512, 1024, 2048, 4096}, bytes: true}

// allowed lists the options by filesystem and flag; see mke2fs(8) and
// mkfs.xfs(8).
var allowed = map[string]map[string]option{
	"ext4": {
		"-b": {value: &numbers{oneOf: []int64{1024, 2048, 4096}}},
		"-i": {value: &numbers{min: 1024, max: 64 << 20}},
		"-I": {value: &numbers{oneOf: []int64{256, 512, 1024}}},
		"-m": {value: &numbers{min: 0, max: 50}},
		"-N": {value: &numbers{min: 16, max: 1<<32 - 1}},
		"-E": {suboptions: map[string]numbers{
			"stride":       {min: 1, max: 1 << 20},
			"stripe_width": {min: 1, max: 1 << 20},
		}},
		"-J": {suboptions: map[string]numbers{"size": {min: 4, max: 1 << 10}}},
	},
	"xfs": {
		"-b": {suboptions: map[string]numbers{"size": {oneOf: []int64{1024, 2048, 4096}, bytes: true}}},
		"-s": {suboptions: map[string]numbers{"size": powers}},
		"-i": {suboptions: map[string]numbers{
			"size":   {oneOf: []int64{512, 1024, 2048}, bytes: true},
			"maxpct": {min: 0, max: 100},
		}},
		"-d": {suboptions: map[string]numbers{
			"agcount": {min: 1, max: 1 << 20},
			"su":      {min: 512, max: 1 << 30, bytes: true},
			"sw":      {min: 1, max: 1 << 16},
		}},
		"-l": {suboptions: map[string]numbers{"size": {min: 1 << 20, max: 2 << 30, bytes: true}}},
		"-m": {suboptions: map[string]numbers{
			"bigtime":  {min: 0, max: 1},
			"finobt":   {min: 0, max: 1},
			"inobtcnt": {min: 0, max: 1},
			"reflink":  {min: 0, max: 1},
			"rmapbt":   {min: 0, max: 1},
		}},
	},
}

// Parse reads the options for a filesystem (ext4 or xfs) as the arguments that
// they are for mkfs; an empty text is none. Its errors are ErrInvalid.
func Parse(filesystem, text string) ([]string, error) {
	flags, known := allowed[filesystem]
	switch {
	case text == "":
		return nil, nil
	case !known:
		return nil, fmt.Errorf("%w: %q for filesystem %q, which takes none", ErrInvalid, text, filesystem)
	case len(text) > maxLength:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(text), maxLength)
	}
	// Split at spaces alone: a tab or a control byte stays in its word and is
	// refused with it.
	words := slices.DeleteFunc(strings.Split(text, " "), func(w string) bool { return w == "" })
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("%w: %q is not a list of flags with one value each", ErrInvalid, text)
	}
	seen := map[string]bool{}
	for i := 0; i < len(words); i += 2 {
		flag, value := words[i], words[i+1]
		o, known := flags[flag]
		if !known {
			return nil, fmt.Errorf("%w: %q is not allowed for %s, only %s", ErrInvalid, flag, filesystem, names(flags))
		}
		if seen[flag] {
			return nil, fmt.Errorf("%w: %s is given twice", ErrInvalid, flag)
		}
		seen[flag] = true
		if err := o.check(value); err != nil {
			return nil, fmt.Errorf("%w: %s %w", ErrInvalid, flag, err)
		}
	}
	return words, nil
}

func (o option) check(value string) error {
	if o.value != nil {
		return o.value.check(value)
	}
	seen := map[string]bool{}
	for _, pair := range strings.Split(value, ",") {
		key, number, _ := strings.Cut(pair, "=")
		rule, known := o.suboptions[key]
		if !known {
			return fmt.Errorf("%q is not allowed, only %s", key, names(o.suboptions))
		}
		if seen[key] {
			return fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := rule.check(number); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (n numbers) check(text string) error {
	digits, factor := text, int64(1)
	if n.bytes && text != "" {
		if shift := strings.IndexByte("kmg", text[len(text)-1]); shift >= 0 {
			digits, factor = text[:len(text)-1], int64(1)<<(10*(shift+1))
		}
	}
	v, err := strconv.ParseInt(digits, 10, 40)
	if err != nil || strconv.FormatInt(v, 10) != digits {
		return fmt.Errorf("%q is not a number", text)
	}
	v *= factor
	if len(n.oneOf) > 0 {
		if !slices.Contains(n.oneOf, v) {
			return fmt.Errorf("%s is not one of %v", text, n.oneOf)
		}
		return nil
	}
	if v < n.min || v > n.max {
		return fmt.Errorf("%s is not within %d to %d", text, n.min, n.max)
	}
	return nil
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
