// Package repo finds the checkout that the lab builds the product from.
package repo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// EnvRoot is the environment variable that names the checkout.
const EnvRoot = "DISTORT_REPO"

// Root returns $DISTORT_REPO, or the nearest directory above the current one
// that holds the workspace file and this module.
func Root() (string, error) {
	dir := os.Getenv(EnvRoot)
	if dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	return findAbove(dir)
}

func findAbove(start string) (string, error) {
	for dir := start; ; dir = filepath.Dir(dir) {
		if isRoot(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no checkout of DISTORT (go.work and e2e/go.mod) in " + start + " or above; run inside one or set " + EnvRoot)
		}
	}
}

func isRoot(dir string) bool {
	for _, name := range []string{"go.work", "e2e/go.mod"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
