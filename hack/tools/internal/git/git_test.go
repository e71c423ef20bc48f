package git_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/git/gittest"
)

func TestLastVersion(t *testing.T) {
	for name, c := range map[string]struct {
		tags []string
		want string
	}{
		"none":                              {nil, ""},
		"by number and not by letter":       {[]string{"modules/api/v0.9.0", "modules/api/v0.10.0"}, "v0.10.0"},
		"of this folder":                    {[]string{"modules/api/v0.1.0", "modules/csi/v0.2.0"}, "v0.1.0"},
		"a folder that only starts alike":   {[]string{"modules/apiextra/v0.2.0"}, ""},
		"a release is after its candidates": {[]string{"modules/api/v0.1.0", "modules/api/v0.1.0-rc.1"}, "v0.1.0"},
		"what is no version is none":        {[]string{"modules/api/vnext", "v0.3.0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := gittest.Init(t, dir)
			for _, tag := range c.tags {
				gittest.Run(t, dir, "tag", tag)
			}
			if got, err := r.LastVersion(t.Context(), "modules/api"); err != nil || got != c.want {
				t.Errorf("LastVersion = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A tag on another branch is not what this one was released as.
func TestLastVersionIsOfThisBranch(t *testing.T) {
	dir := t.TempDir()
	r := gittest.Init(t, dir)
	gittest.Run(t, dir, "checkout", "--quiet", "-b", "other")
	gittest.Commit(t, dir)
	gittest.Run(t, dir, "tag", "modules/api/v0.2.0")
	gittest.Run(t, dir, "checkout", "--quiet", "-")
	if got, err := r.LastVersion(t.Context(), "modules/api"); err != nil || got != "" {
		t.Errorf("LastVersion = %q, %v, want none", got, err)
	}
	if there, err := r.HasTag(t.Context(), "modules/api/v0.2.0"); err != nil || !there {
		t.Errorf("HasTag = %v, %v: the name is taken", there, err)
	}
}

func TestChangedAndDirty(t *testing.T) {
	for name, c := range map[string]struct {
		file           string
		commit         bool
		changed, dirty bool
	}{
		"nothing":             {"", false, false, false},
		"a file of it":        {"modules/api/a.go", true, true, false},
		"not yet committed":   {"modules/api/a.go", false, true, true},
		"not yet known":       {"modules/api/new.go", false, true, true},
		"a file of a sibling": {"modules/csi/a.go", true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gittest.Write(t, dir, "modules/api/a.go", "package api\n")
			r := gittest.Init(t, dir)
			gittest.Run(t, dir, "tag", "modules/api/v0.1.0")
			if c.file != "" {
				gittest.Write(t, dir, c.file, "package changed\n")
			}
			if c.commit {
				gittest.Commit(t, dir)
			}
			changed, err := r.Changed(t.Context(), "modules/api/v0.1.0", "modules/api")
			if err != nil || changed != c.changed {
				t.Errorf("Changed = %v, %v, want %v", changed, err, c.changed)
			}
			dirty, err := r.Dirty(t.Context())
			if err != nil || (len(dirty) > 0) != c.dirty {
				t.Errorf("Dirty = %q, %v, want %v", dirty, err, c.dirty)
			}
		})
	}
}

func TestChangedSinceNothingIsAnError(t *testing.T) {
	r := gittest.Init(t, t.TempDir())
	if _, err := r.Changed(t.Context(), "modules/api/v9.9.9", "modules/api"); err == nil {
		t.Error("a revision that is not there is compared with")
	}
}

func TestExportIsOfTheRevision(t *testing.T) {
	dir, into := t.TempDir(), t.TempDir()
	gittest.Write(t, dir, "modules/api/a.go", "package old\n")
	r := gittest.Init(t, dir)
	gittest.Write(t, dir, "modules/api/a.go", "package new\n")
	if err := r.Export(t.Context(), "HEAD", into); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(into, "modules", "api", "a.go"))
	if err != nil || string(got) != "package old\n" {
		t.Errorf("exported %q, %v", got, err)
	}
}

func TestArchiveIsNoCheckout(t *testing.T) {
	dir := t.TempDir()
	if (git.Repo{Dir: dir}).IsCheckout(t.Context()) {
		t.Error("a folder without repository is taken for one")
	}
	gittest.Write(t, dir, "below/a", "")
	if !gittest.Init(t, dir).IsCheckout(t.Context()) {
		t.Error("a repository is not taken for one")
	}
	if (git.Repo{Dir: filepath.Join(dir, "below")}).IsCheckout(t.Context()) {
		t.Error("a folder in somebody's repository is taken for one")
	}
}
