package nvmeoftest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

var _ kernel.FS = (*nvmeoftest.Kernel)(nil)

// recording is the nvmet directory of a real Linux 6.12.95 in the form of
// Kernel.Dump: two subsystems that allow any host, one with a host, four ports.
func recording(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/nvmet-6.12.95.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// TestModelShowsWhatTheKernelShows configures the model as the machine of the
// recording was, and expects the same directories, attributes, links and texts.
func TestModelShowsWhatTheKernelShows(t *testing.T) {
	k := nvmeoftest.NewKernel()
	var links [][2]string
	for _, line := range recording(t) {
		if link, target, ok := strings.Cut(line, " -> "); ok {
			links = append(links, [2]string{target, link})
			continue
		}
		p, value, isAttr := strings.Cut(line, " = ")
		if !isAttr {
			p = strings.TrimSuffix(p, "/")
			if _, err := k.ReadDir(p); err != nil { // not one that comes with its parent
				must(t, k.Mkdir(p))
			}
			continue
		}
		switch name := filepath.Base(p); {
		case strings.HasPrefix(p, "subsystems/") && strings.Contains(p, "/passthru/"), name == "enable":
		case name == "device_path":
			k.AddDevice(value)
			must(t, k.WriteFile(p, []byte(value)))
		case name == "device_uuid", name == "device_nguid", name == "attr_serial", name == "attr_allow_any_host",
			name == "addr_trtype", name == "addr_adrfam", name == "addr_traddr", name == "addr_trsvcid":
			must(t, k.WriteFile(p, []byte(value)))
		}
	}
	for _, l := range links {
		must(t, k.Symlink(l[0], l[1]))
	}
	for _, line := range recording(t) {
		if p, ok := strings.CutSuffix(line, "/enable = 1"); ok {
			must(t, k.WriteFile(p+"/enable", []byte("1")))
		}
	}
	if d := cmp.Diff(sorted(recording(t)), sorted(k.Dump())); d != "" {
		t.Errorf("model differs from the kernel (-kernel +model):\n%s", d)
	}
}

// TestOSReadsARealTree reads the recording through the FS that a real kernel is
// read with.
func TestOSReadsARealTree(t *testing.T) {
	root := t.TempDir()
	for _, line := range recording(t) {
		p, rest, isAttr := strings.Cut(line, " = ")
		link, target, isLink := strings.Cut(line, " -> ")
		switch {
		case isLink:
			must(t, os.Symlink("../../../../nvmet/"+target, filepath.Join(root, link)))
		case isAttr:
			must(t, os.WriteFile(filepath.Join(root, p), []byte(rest+"\n"), 0o600))
		default:
			must(t, os.Mkdir(filepath.Join(root, line), 0o700))
		}
	}
	states, err := kernel.New(kernel.OS(root)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != 3 {
		t.Fatalf("%d subsystems", len(states))
	}
	id, err := nvmeof.ParseUUID("11111111-0000-4000-8000-000000000001")
	must(t, err)
	want := nvmeof.State{
		NQN: "nqn.2026-02.io.distort:volume-t1", Serial: "DSER0001", Model: "Linux",
		AllowedHosts: []string{"nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b"},
		Namespaces: []nvmeof.NamespaceState{{
			Namespace: nvmeof.Namespace{NSID: 1, DevicePath: "/dev/zvol/data/vol1", UUID: id}, Enabled: true,
		}},
		Ports: []nvmeof.Port{
			{ID: 1, Transport: "tcp", Family: "ipv4", Address: "10.77.0.10", Service: "4420"},
			{ID: 2, Transport: "rdma", Family: "ipv4", Address: "10.77.0.10", Service: "4421"},
		},
	}
	if d := cmp.Diff(want, states[0]); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
	if !states[1].AllowAnyHost || len(states[1].Ports) != 3 || states[1].Ports[2].Family != "ipv6" {
		t.Errorf("second subsystem: %+v", states[1])
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sorted(lines []string) map[string]bool {
	m := map[string]bool{}
	for _, l := range lines {
		m[l] = true
	}
	return m
}
