package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// EnvDir is the environment variable that moves the cache.
const EnvDir = "DISTORT_CACHE"

// Dir returns the directory of the lab's cache: $DISTORT_CACHE, or "distort"
// below the user's cache directory ($XDG_CACHE_HOME or ~/.cache).
func Dir() (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("%s=%q: %w", EnvDir, dir, err)
		}
		return absolute, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory (set %s): %w", EnvDir, err)
	}
	return filepath.Join(base, "distort"), nil
}
