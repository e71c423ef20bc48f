// Package apigate keeps a version's promise: who takes a new version of a module
// need not change a line, unless the version's number says so.
package apigate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Gate compares modules with what they were.
type Gate struct {
	Tree *repo.Tree
	Git  git.Repo
	// Base is a revision to compare with; the last tag of the module when empty.
	Base string
	Out  io.Writer
}

// Check tells what changed in the API of a module, and fails when that breaks its
// users and the version does not say so.
func (g Gate) Check(ctx context.Context, m repo.Module) error {
	base, err := g.base(ctx, m)
	if err != nil {
		return err
	}
	if base == "" {
		fmt.Fprintf(g.Out, "%s: no tag yet: nothing was promised\n", m.Dir)
		return nil
	}
	scratch, err := os.MkdirTemp("", "distort-apidiff-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := g.Git.Export(ctx, base, scratch); err != nil {
		return err
	}
	was, err := repo.Open(scratch)
	if err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	old, there := was.Module(m.Dir)
	if !there {
		fmt.Fprintf(g.Out, "%s: not in %s: nothing was promised\n", m.Dir, base)
		return nil
	}
	report, err := compare(ctx, m.Path, filepath.Join(scratch, m.Dir), filepath.Join(g.Tree.Root, m.Dir))
	if err != nil {
		return fmt.Errorf("%s since %s: %w", m.Dir, base, err)
	}
	fmt.Fprintf(g.Out, "%s %s since %s (%s): changes of the API: %d\n", m.Dir, m.Version, base, old.Version, len(report.Changes))
	if err := report.Text(g.Out); err != nil {
		return err
	}
	return judge(m.Dir, old.Version, m.Version, report)
}

func (g Gate) base(ctx context.Context, m repo.Module) (string, error) {
	if g.Base != "" {
		return g.Base, nil
	}
	last, err := g.Git.LastVersion(ctx, m.Dir)
	if err != nil || last == "" {
		return "", err
	}
	return m.Dir + "/" + last, nil
}

func compare(ctx context.Context, path, before, after string) (apidiff.Report, error) {
	was, is := &apidiff.Module{Path: path}, &apidiff.Module{Path: path}
	if err := errors.Join(load(ctx, was, before), load(ctx, is, after)); err != nil {
		return apidiff.Report{}, err
	}
	return apidiff.ModuleChanges(was, is), nil
}

// judge fails when incompatible changes are not matched by the version: by another
// major number, or while that is 0 by another minor one.
func judge(dir, was, is string, report apidiff.Report) error {
	var broken []string
	for _, c := range report.Changes {
		if !c.Compatible {
			broken = append(broken, c.Message)
		}
	}
	if len(broken) == 0 || semver.Compare(semver.Major(is), semver.Major(was)) > 0 {
		return nil
	}
	need := "major"
	if semver.Major(was) == "v0" {
		need = "minor"
		if semver.Compare(semver.MajorMinor(is), semver.MajorMinor(was)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: version %s is %s or a patch of it, and breaks users of that: bump its %s number, or take back\n- %s",
		dir, is, was, need, strings.Join(broken, "\n- "))
}
