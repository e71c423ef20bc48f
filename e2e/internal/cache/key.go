package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyLength is the number of hexadecimal digits of a key; 64 bits of SHA-256
// are plenty for the few entries one machine keeps, and paths stay readable.
const keyLength = 16

// Key accumulates the inputs of a build step. The order of additions counts.
// The first error is kept and reported by Sum.
type Key struct {
	hash hash.Hash
	err  error
}

// NewKey starts a key. The recipe names the way of building, with a version
// that is raised when the same inputs shall give another output.
func NewKey(recipe string) *Key {
	return (&Key{hash: sha256.New()}).String("recipe", recipe)
}

// String adds a named value. Name and value are length-prefixed, so that no
// two different sequences of additions hash alike.
func (k *Key) String(name, value string) *Key {
	if k.err == nil {
		_, k.err = fmt.Fprintf(k.hash, "%d:%s=%d:%s;", len(name), name, len(value), value)
	}
	return k
}

// Strings adds a named list.
func (k *Key) Strings(name string, values []string) *Key {
	k.String(name, fmt.Sprint(len(values)))
	for _, value := range values {
		k.String(name, value)
	}
	return k
}

// File adds the content of a file under a name of its own, so that the place
// of a checkout does not matter.
func (k *Key) File(name, path string) *Key {
	if k.err != nil {
		return k
	}
	sum, err := HashFile(path)
	if err != nil {
		k.err = err
		return k
	}
	return k.String(name, sum)
}

// Files adds the regular files directly in dir that match one of the patterns,
// in name order.
func (k *Key) Files(dir string, patterns ...string) *Key {
	entries, err := os.ReadDir(dir)
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("list inputs: %w", err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && matchesAny(entry.Name(), patterns) {
			k.File(entry.Name(), filepath.Join(dir, entry.Name()))
		}
	}
	return k
}

// Tree adds every regular file below dir whose name matches one of the
// patterns, in path order. Go test files are left out: no build reads them.
func (k *Key) Tree(dir string, patterns ...string) *Key {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && matchesAny(entry.Name(), patterns) && !strings.HasSuffix(entry.Name(), "_test.go") {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			k.File(name, path)
		}
		return nil
	})
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("walk inputs: %w", err)
	}
	return k
}

// Sum returns the key, or the first error met while reading inputs.
func (k *Key) Sum() (string, error) {
	if k.err != nil {
		return "", k.err
	}
	return hex.EncodeToString(k.hash.Sum(nil))[:keyLength], nil
}

// HashFile returns the SHA-256 of a file in hexadecimal digits.
func HashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash input: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("hash input %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func matchesAny(name string, patterns []string) bool {
	for _, pattern := range patterns {
		if ok, err := filepath.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}
