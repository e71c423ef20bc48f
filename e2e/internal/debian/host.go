package debian

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/distort-io/distort/e2e/internal/command"
)

// Missing returns those of the named packages that this host has not installed.
func Missing(ctx context.Context, run command.Runner, packages []string) ([]string, error) {
	out, err := run.Output(ctx, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n")
	if err != nil {
		return nil, err
	}
	installed := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		if name, ok := strings.CutSuffix(line, " installed"); ok {
			installed[name] = true
		}
	}
	var missing []string
	for _, name := range packages {
		if !installed[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// Install installs packages on this host from the host's own sources.
func Install(ctx context.Context, run command.Runner, packages []string) error {
	run = run.With("DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if err := run.Run(ctx, "apt-get", "-q", "-o", "Acquire::Retries=3", "update"); err != nil {
		return err
	}
	return run.Run(ctx, "apt-get", append([]string{"-q", "-y", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300",
		"install", "--no-install-recommends"}, packages...)...)
}

// Codename returns the release of a Debian system from its os-release file.
func Codename(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("find the host's release: %w", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(value, `"`), nil
		}
	}
	return "", fmt.Errorf("find the host's release: %s names no VERSION_CODENAME", path)
}
