package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distort-io/distort/e2e/internal/command"
)

// Apt is the package manager with sources, lists and downloads of its own. The
// host's proxies and other settings still hold.
type Apt struct {
	run     command.Runner
	dir     string
	options []string
}

// NewApt makes a private configuration in dir and downloads the package lists.
func NewApt(ctx context.Context, run command.Runner, dir string, sources []Source) (*Apt, error) {
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("private package configuration: %w", err)
		}
	}
	list := filepath.Join(dir, "sources.list")
	for path, text := range map[string]string{list: Format(sources), filepath.Join(dir, "status"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("private package configuration: %w", err)
		}
	}
	apt := &Apt{run: run.In(dir).With("DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"), dir: dir, options: []string{
		"-o", "Dir::Etc::sourcelist=" + list,
		"-o", "Dir::Etc::sourceparts=" + filepath.Join(dir, "parts"),
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::status=" + filepath.Join(dir, "status"),
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Sandbox::User=root",
		"-o", "Acquire::Retries=3",
	}}
	if err := apt.run.Run(ctx, "apt-get", append(slices.Clone(apt.options), "update")...); err != nil {
		return nil, err
	}
	return apt, nil
}

// Depends returns the packages that a package of a suite depends on directly.
func (a *Apt) Depends(ctx context.Context, name, suite string) ([]string, error) {
	out, err := a.run.Output(ctx, "apt-cache", append(slices.Clone(a.options), "--no-all-versions", "-t", suite, "show", name)...)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(out, "\n") {
		if value, ok := strings.CutPrefix(line, "Depends: "); ok {
			return ParseDepends(value), nil
		}
	}
	return nil, errors.New("package " + name + " of " + suite + " depends on nothing")
}

// ParseDepends returns the names in a dependency field, versions and
// alternatives left out.
func ParseDepends(field string) []string {
	var list []string
	for _, item := range strings.Split(field, ",") {
		first, _, _ := strings.Cut(item, "|")
		if words := strings.Fields(first); len(words) > 0 {
			list = append(list, words[0])
		}
	}
	return list
}

// Download fetches the package file of a suite and returns its path.
func (a *Apt) Download(ctx context.Context, name, suite string) (string, error) {
	target, err := os.MkdirTemp(a.dir, "download-")
	if err != nil {
		return "", fmt.Errorf("download %s: %w", name, err)
	}
	if err := a.run.In(target).Run(ctx, "apt-get", append(slices.Clone(a.options), "-t", suite, "download", name)...); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(target, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("download %s: %d package files arrived, want 1", name, len(files))
	}
	return files[0], nil
}

// Unpack extracts a package file below dir. It must not be used on a directory
// that dpkg manages: it would replace symbolic links such as /lib.
func Unpack(ctx context.Context, run command.Runner, file, dir string) error {
	return run.Run(ctx, "dpkg-deb", "-x", file, dir)
}
