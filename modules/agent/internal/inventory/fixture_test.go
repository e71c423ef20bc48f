package inventory_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// used are the files that a Reader may read, and those that it must not. Laying out
// the rest of a recording, mostly counters and empty GID slots, takes the tests a
// minute.
var used = regexp.MustCompile(`/(transport|address|cntrltype|serial|model|state|numa_node|nsid|nuse|size|dev|hidden|ro|logical_block_size|partition|start|class|rate|link_layer|mountinfo|temp1_input|(types|ndevs)/[0-9]+|gids/[0-9]{1,2})$`)

// unpack lays a recorded host out below a temporary directory.
func unpack(t *testing.T, name string) inventory.Roots {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && !used.MatchString(h.Name) {
			continue
		}
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			err = os.Symlink(h.Linkname, path)
		case tar.TypeReg:
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				err = os.WriteFile(path, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The recordings were made by a process of the host, so "self" is process 1.
	if err := os.Rename(filepath.Join(root, "proc/self"), filepath.Join(root, "proc/1")); err != nil {
		t.Fatal(err)
	}
	return inventory.Roots{Sys: root + "/sys", Proc: root + "/proc", Dev: "/dev"}
}

func newReader(t *testing.T, roots inventory.Roots, change ...func(*inventory.Config)) *inventory.Reader {
	t.Helper()
	c := inventory.Config{Roots: roots, Addresses: interfaces{}}
	for _, f := range change {
		f(&c)
	}
	r, err := inventory.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// interfaces is the addresses of each interface that is up; one with nil
// addresses is down.
type interfaces map[string][]string

func (i interfaces) OfInterface(name string) ([]netip.Addr, bool, error) {
	list, ok := i[name]
	if !ok {
		return nil, false, &os.PathError{Op: "interface", Path: name, Err: os.ErrNotExist}
	}
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, list != nil, nil
}

func (i interfaces) Owner(addr netip.Addr) (string, error) {
	for name, list := range i {
		for _, s := range list {
			if netip.MustParseAddr(s) == addr {
				return name, nil
			}
		}
	}
	return "", nil
}
