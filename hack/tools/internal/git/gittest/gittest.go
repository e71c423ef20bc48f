// Package gittest makes repositories for tests.
package gittest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/git"
)

// Init makes a repository of the files that are in dir, in one commit.
func Init(t *testing.T, dir string) git.Repo {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
	}
	Run(t, dir, "init", "--quiet")
	Commit(t, dir)
	return git.Repo{Dir: dir}
}

// Commit commits everything that is in dir.
func Commit(t *testing.T, dir string) {
	t.Helper()
	Run(t, dir, "add", "--all")
	Run(t, dir, "commit", "--quiet", "--allow-empty", "--message", "test")
}

// Write writes a file of the repository, with the folders above it.
func Write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Run runs git in dir.
func Run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}
