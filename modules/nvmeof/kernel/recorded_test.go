package kernel_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// nvmetOf lays out the nvmet directory of a host that was recorded from Linux 6.12.95,
// with targets that this library did not make.
func nvmetOf(t *testing.T, name string) string {
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
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		_, below, ours := strings.Cut(h.Name, kernel.DefaultRoot[1:]+"/")
		if !ours || below == "" {
			continue
		}
		path := filepath.Join(root, filepath.Clean("/"+below))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordedTargetsAreReadAsTheyAre(t *testing.T) {
	const (
		host = "nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b"
		t1   = "nqn.2026-02.io.distort:volume-t1 DSER0001 Linux any=false [" + host + "]" +
			" ns 1 /dev/zvol/data/vol1 11111111-0000-4000-8000-000000000001 true" +
			" port 1 tcp ipv4 10.77.0.10 4420 port 2 rdma ipv4 10.77.0.10 4421"
		t2 = "nqn.2026-02.io.distort:volume-t2 DSER0002 Linux any=true []" +
			" ns 1 /dev/zvol/data/vol2 22222222-0000-4000-8000-000000000002 true" +
			" port 1 tcp ipv4 10.77.0.10 4420 port 3 tcp ipv4 10.77.0.20 4420 port 4 tcp ipv6 fd77::10 4420"
		t3 = "nqn.2026-02.io.distort:volume-t3 DSER0003 Linux any=true []" +
			" ns 1 /dev/zvol/data/vol3 33333333-0000-4000-8000-000000000003 true"
	)
	for name, want := range map[string][]string{"target-nvmet-one-volume": {t1}, "target-nvmet-full": {t1, t2, t3}} {
		t.Run(name, func(t *testing.T) {
			states, err := kernel.New(kernel.OS(nvmetOf(t, name))).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range states {
				got = append(got, describe(s))
			}
			if !slices.Equal(got, want) {
				t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func describe(s nvmeof.State) string {
	out := fmt.Sprintf("%s %s %s any=%t %v", s.NQN, s.Serial, s.Model, s.AllowAnyHost, s.AllowedHosts)
	for _, n := range s.Namespaces {
		out += fmt.Sprintf(" ns %d %s %s %t", n.NSID, n.DevicePath, n.UUID, n.Enabled)
	}
	for _, p := range s.Ports {
		out += fmt.Sprintf(" port %d %s %s %s %s", p.ID, p.Transport, p.Family, p.Address, p.Service)
	}
	return out
}
