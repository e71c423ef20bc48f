package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

func TestOSNeverCreatesAFile(t *testing.T) {
	root := t.TempDir()
	fs := kernel.OS(root)
	if err := fs.WriteFile("enable", []byte("1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
	if _, err := os.Lstat(filepath.Join(root, "enable")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestOSWritesWhatIsThere(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "enable"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := kernel.OS(root)
	if err := fs.WriteFile("enable", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile("enable"); err != nil || string(got) != "1" {
		t.Errorf("read back %q, %v", got, err)
	}
}

func TestOSStaysBeneathItsRoot(t *testing.T) {
	fs := kernel.OS(t.TempDir())
	for _, p := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
		_, readErr := fs.ReadFile(p)
		_, dirErr := fs.ReadDir(p)
		_, linkErr := fs.Readlink(p)
		for name, err := range map[string]error{
			"read": readErr, "readdir": dirErr, "readlink": linkErr, "mkdir": fs.Mkdir(p), "rmdir": fs.Rmdir(p),
			"write": fs.WriteFile(p, nil), "unlink": fs.Remove(p), "symlink": fs.Symlink("a", p), "symlink target": fs.Symlink(p, "a"),
		} {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s %q: %v, want EINVAL", name, p, err)
			}
		}
	}
}

func TestOSKeepsTheErrnoOfTheKernel(t *testing.T) {
	fs := kernel.OS(t.TempDir())
	for _, step := range []struct {
		name string
		err  error
		want error
	}{
		{"mkdir", fs.Mkdir("a"), nil},
		{"mkdir again", fs.Mkdir("a"), syscall.EEXIST},
		{"mkdir below", fs.Mkdir("a/b"), nil},
		{"rmdir what is not empty", fs.Rmdir("a"), syscall.ENOTEMPTY},
		{"symlink", fs.Symlink("a/b", "a/link"), nil},
		{"symlink again", fs.Symlink("a/b", "a/link"), syscall.EEXIST},
		{"rmdir a link", fs.Rmdir("a/link"), syscall.ENOTDIR},
		{"unlink", fs.Remove("a/link"), nil},
		{"unlink again", fs.Remove("a/link"), syscall.ENOENT},
		{"rmdir", fs.Rmdir("a/b"), nil},
	} {
		if !errors.Is(step.err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, step.err, step.want)
		}
	}
}

func TestOSLinksToTheObjectUnderItsRoot(t *testing.T) {
	root := t.TempDir()
	fs := kernel.OS(root)
	for _, err := range []error{fs.Mkdir("hosts"), fs.Mkdir("hosts/a"), fs.Symlink("hosts/a", "link")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if to, err := fs.Readlink("link"); err != nil || to != filepath.Join(root, "hosts/a") {
		t.Errorf("link to %q, %v", to, err)
	}
	names, err := fs.ReadDir("hosts")
	if err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("names %v, %v", names, err)
	}
}

func TestOSAwaitsNothingOfWhatIsNoDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for _, path := range []string{"/dev/absent", t.TempDir(), file, pipe} {
			kernel.OS("/").AwaitDevice(path)
		}
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Error("waits for ever")
	}
}
