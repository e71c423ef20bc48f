// Package git asks the git command about a checkout and its tags.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/mod/semver"
)

// Repo is a checkout.
type Repo struct {
	// Dir is its root.
	Dir string
}

// IsCheckout tells whether there is a repository with a commit: an unpacked archive
// of the sources has none.
func (r Repo) IsCheckout(ctx context.Context) bool {
	top, err := r.run(ctx, "rev-parse", "--show-cdup")
	if err != nil || top != "" {
		return false
	}
	_, err = r.run(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	return err == nil
}

// LastVersion is the highest version among the tags <folder>/vX.Y.Z that HEAD
// contains; empty when there is none.
func (r Repo) LastVersion(ctx context.Context, folder string) (string, error) {
	out, err := r.run(ctx, "tag", "--merged", "HEAD", "--list", folder+"/v*")
	if err != nil {
		return "", err
	}
	last := ""
	for _, tag := range strings.Fields(out) {
		version := strings.TrimPrefix(tag, folder+"/")
		if semver.IsValid(version) && semver.Compare(version, last) > 0 {
			last = version
		}
	}
	return last, nil
}

// HasTag tells whether the tag exists, wherever it points.
func (r Repo) HasTag(ctx context.Context, tag string) (bool, error) {
	out, err := r.run(ctx, "tag", "--list", tag)
	return out != "", err
}

// Changed tells whether files of the folder differ from the revision, files that
// git does not know yet included.
func (r Repo) Changed(ctx context.Context, revision, folder string) (bool, error) {
	_, err := r.run(ctx, "diff", "--quiet", revision, "--", folder)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return true, nil
	case err != nil:
		return false, err
	}
	unknown, err := r.run(ctx, "ls-files", "--others", "--exclude-standard", "--", folder)
	return unknown != "", err
}

// Dirty lists what is not committed, as git status does.
func (r Repo) Dirty(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, "status", "--porcelain")
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// Tag makes an annotated tag of HEAD, signed if asked to.
func (r Repo) Tag(ctx context.Context, tag, message string, sign bool) error {
	kind := "--annotate"
	if sign {
		kind = "--sign"
	}
	_, err := r.run(ctx, "tag", kind, "--message", message, tag)
	return err
}

func (r Repo) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
