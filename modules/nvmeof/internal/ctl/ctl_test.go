package ctl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/ctl"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

const (
	nqn   = "nqn.2026-02.com.example:disk1"
	hostA = "nqn.2026-01.com.example:host-a"
	hostB = "nqn.2026-01.com.example:host-b"
)

// devices is a machine with block devices, some of them in use.
type devices struct {
	ids  map[string]uint64
	busy map[string]bool
}

func (d devices) ID(path string) (uint64, error) {
	id, ok := d.ids[path]
	if !ok {
		return 0, fmt.Errorf("%s: %w", path, ctl.ErrNotBlockDevice)
	}
	return id, nil
}

func (d devices) Free(path string) error {
	if _, err := d.ID(path); err != nil {
		return err
	}
	if d.busy[path] {
		return fmt.Errorf("%s: %w: mounted at /data", path, ctl.ErrDeviceBusy)
	}
	return nil
}

// machine runs command lines against one kernel.
type machine struct {
	t       *testing.T
	kernel  *nvmeoftest.Kernel
	devices devices
	where   []ctl.Where
}

func newMachine(t *testing.T) *machine {
	return &machine{
		t:      t,
		kernel: nvmeoftest.NewKernel(nvmeoftest.WithDevices("/dev/sda", "/dev/disk/by-id/a", "/dev/sdb", "/dev/sdc")),
		devices: devices{
			ids:  map[string]uint64{"/dev/sda": 1, "/dev/disk/by-id/a": 1, "/dev/sdb": 2, "/dev/sdc": 3},
			busy: map[string]bool{"/dev/sdc": true},
		},
	}
}

func (m *machine) run(args ...string) (code int, out, err string) {
	m.t.Helper()
	var stdout, stderr bytes.Buffer
	code = ctl.Run(m.t.Context(), args, ctl.Config{
		Target: func(where ctl.Where) nvmeof.Target {
			m.where = append(m.where, where)
			if where.Kind == ctl.KindSPDK {
				return spdk.New(rpc.New(where.Socket))
			}
			return kernel.New(m.kernel)
		},
		Devices: m.devices, Out: &stdout, Err: &stderr,
	})
	return code, stdout.String(), stderr.String()
}

func (m *machine) mustRun(args ...string) string {
	m.t.Helper()
	code, out, err := m.run(args...)
	if code != ctl.ExitOK {
		m.t.Fatalf("%v: exit %d: %s", args, code, err)
	}
	return out
}

func exportArgs(device string, more ...string) []string {
	return append([]string{"export", device, "--nqn", nqn, "--host", hostA, "--listen", "tcp://10.0.0.1:4420"}, more...)
}

func TestExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"export":               {exportArgs("/dev/sda"), ctl.ExitOK, ""},
		"list":                 {[]string{"list"}, ctl.ExitOK, ""},
		"unexport of nothing":  {[]string{"unexport", nqn}, ctl.ExitOK, ""},
		"help":                 {[]string{"--help"}, ctl.ExitOK, ""},
		"no command":           {nil, ctl.ExitUsage, "a command is required"},
		"unknown command":      {[]string{"explode"}, ctl.ExitUsage, "explode"},
		"unknown flag":         {[]string{"list", "--nothing"}, ctl.ExitUsage, "--nothing"},
		"unknown target":       {[]string{"list", "--target", "iscsi"}, ctl.ExitUsage, `"iscsi"`},
		"unknown output":       {[]string{"list", "-o", "xml"}, ctl.ExitUsage, `"xml"`},
		"no device":            {[]string{"export", "--nqn", nqn}, ctl.ExitUsage, "1 arg"},
		"no nqn":               {[]string{"export", "/dev/sda", "--host", hostA, "--listen", "tcp://10.0.0.1:4420"}, ctl.ExitUsage, "--nqn"},
		"no host":              {[]string{"export", "/dev/sda", "--nqn", nqn, "--listen", "tcp://10.0.0.1:4420"}, ctl.ExitUsage, "never open to any host"},
		"empty host list":      {[]string{"export", "/dev/sda", "--nqn", nqn, "--host", "", "--listen", "tcp://10.0.0.1:4420"}, ctl.ExitUsage, "--host"},
		"any host":             {[]string{"export", "/dev/sda", "--nqn", nqn, "--host", "*", "--listen", "tcp://10.0.0.1:4420"}, ctl.ExitUsage, `allowedHosts[0] "*"`},
		"no listener":          {[]string{"export", "/dev/sda", "--nqn", nqn, "--host", hostA}, ctl.ExitUsage, "--listen"},
		"bad listener":         {exportArgs("/dev/sda", "--listen", "tcp://0.0.0.0:4420"), ctl.ExitUsage, "wildcard"},
		"bad uuid":             {exportArgs("/dev/sda", "--uuid", "x"), ctl.ExitUsage, "--uuid"},
		"relative device":      {exportArgs("sda"), ctl.ExitUsage, "absolute"},
		"unexport of a path":   {[]string{"unexport", "../hosts"}, ctl.ExitUsage, "nqn"},
		"unexport without nqn": {[]string{"unexport"}, ctl.ExitUsage, "1 arg"},
		"device is mounted":    {exportArgs("/dev/sdc"), ctl.ExitFailure, "mounted at /data"},
		"device is no device":  {exportArgs("/etc/passwd"), ctl.ExitFailure, "not a block device"},
		"time is up":           {exportArgs("/dev/sda", "--timeout", "-1s"), ctl.ExitFailure, "deadline"},
		"address is in use":    {exportArgs("/dev/sda", "--listen", "tcp://10.0.0.9:1"), ctl.ExitFailure, "tcp://10.0.0.9:1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			used, err := nvmeof.ParseListener("tcp://10.0.0.9:1")
			if err != nil {
				t.Fatal(err)
			}
			m.kernel.Occupy(used)
			code, _, stderr := m.run(tc.args...)
			if code != tc.code || !strings.Contains(stderr, tc.says) {
				t.Errorf("exit %d, want %d; stderr %q, want %q in it", code, tc.code, stderr, tc.says)
			}
			if code == ctl.ExitUsage && m.kernel.Effects() > 0 {
				t.Errorf("a usage error had %d effects", m.kernel.Effects())
			}
		})
	}
}

func TestExportIsExactAndRepeatable(t *testing.T) {
	m := newMachine(t)
	first := m.mustRun(exportArgs("/dev/sda")...)
	if !strings.Contains(first, "create subsystems/"+nqn) {
		t.Errorf("output does not tell what was done:\n%s", first)
	}
	id := nvmeof.DeriveUUID(nqn, "/dev/sda")
	if want := nqn + " exports /dev/sda as " + id.String() + "\n"; m.mustRun(exportArgs("/dev/sda")...) != want {
		t.Errorf("the second time must do nothing, and say %q", want)
	}
	m.mustRun("unexport", nqn)
	m.mustRun(exportArgs("/dev/sda", "--host", hostB, "--serial", "S1", "--model", "M1")...)

	want := []nvmeof.State{{
		NQN: nqn, Serial: "S1", Model: "M1", AllowedHosts: []string{hostA, hostB},
		Namespaces: []nvmeof.NamespaceState{{Namespace: nvmeof.Namespace{NSID: 1, DevicePath: "/dev/sda", UUID: id, NGUID: id.NGUID()}, Enabled: true}},
		Ports:      []nvmeof.Port{{ID: 1, Transport: "tcp", Family: "ipv4", Address: "10.0.0.1", Service: "4420"}},
	}}
	var got []nvmeof.State
	if err := json.Unmarshal([]byte(m.mustRun("list", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("list (-want +got):\n%s", d)
	}
}

func TestExportKeepsTheUUIDThatWasGiven(t *testing.T) {
	m := newMachine(t)
	const id = "11111111-0000-4000-8000-000000000001"
	if out := m.mustRun(exportArgs("/dev/sda", "--uuid", id)...); !strings.HasSuffix(out, "as "+id+"\n") {
		t.Errorf("output:\n%s", out)
	}
}

func TestExportRefusesADeviceThatIsExportedElsewhere(t *testing.T) {
	m := newMachine(t)
	m.mustRun(exportArgs("/dev/sda")...)
	for _, path := range []string{"/dev/sda", "/dev/disk/by-id/a"} { // one device
		args := exportArgs(path)
		args[3] = nqn + "-2"
		code, _, stderr := m.run(args...)
		if code != ctl.ExitFailure || !strings.Contains(stderr, nqn) || !strings.Contains(stderr, "/dev/sda") {
			t.Errorf("%s: exit %d, %s", path, code, stderr)
		}
	}
	args := exportArgs("/dev/sdb")
	args[3] = nqn + "-2"
	m.mustRun(args...)
}

func TestListAsTable(t *testing.T) {
	m := newMachine(t)
	m.mustRun(exportArgs("/dev/sda")...)
	for _, err := range []error{
		m.kernel.Mkdir("subsystems/nqn.foreign"), m.kernel.WriteFile("subsystems/nqn.foreign/attr_allow_any_host", []byte("1")),
		m.kernel.Mkdir("ports/9"), m.kernel.WriteFile("ports/9/addr_trtype", []byte("tcp")), m.kernel.WriteFile("ports/9/addr_adrfam", []byte("ipv4")),
		m.kernel.WriteFile("ports/9/addr_traddr", []byte("0.0.0.0")), m.kernel.WriteFile("ports/9/addr_trsvcid", []byte("9")),
		m.kernel.Symlink("subsystems/nqn.foreign", "ports/9/subsystems/x"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `NQN                            NSID  DEVICE    ENABLED  HOSTS                           LISTENERS
nqn.2026-02.com.example:disk1  1     /dev/sda  true     nqn.2026-01.com.example:host-a  tcp://10.0.0.1:4420
nqn.foreign                    -     -         -        ANY                             tcp/ipv4/0.0.0.0/9
`
	if d := cmp.Diff(want, m.mustRun("list")); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

func TestUnexportLeavesNothing(t *testing.T) {
	m := newMachine(t)
	before := m.kernel.Dump()
	m.mustRun(exportArgs("/dev/sda")...)
	if out := m.mustRun("unexport", nqn); !strings.Contains(out, "delete subsystems/"+nqn) {
		t.Errorf("output:\n%s", out)
	}
	if out := m.mustRun("unexport", nqn); !strings.Contains(out, "nothing to do") {
		t.Errorf("second time:\n%s", out)
	}
	if d := cmp.Diff(before, m.kernel.Dump()); d != "" {
		t.Errorf("left behind:\n%s", d)
	}
}

func TestTargetIsPassedOn(t *testing.T) {
	m := newMachine(t)
	m.mustRun("list")
	m.mustRun("list", "--root", "/host/nvmet")
	m.mustRun("list", "--socket", "/run/spdk.sock")
	want := []ctl.Where{
		{Kind: ctl.KindKernel, Root: kernel.DefaultRoot, Socket: rpc.DefaultSocket},
		{Kind: ctl.KindKernel, Root: "/host/nvmet", Socket: rpc.DefaultSocket},
		{Kind: ctl.KindKernel, Root: kernel.DefaultRoot, Socket: "/run/spdk.sock"},
	}
	if d := cmp.Diff(want, m.where); d != "" {
		t.Error(d)
	}
}

func TestSPDKTarget(t *testing.T) {
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	client := rpc.New(fake.Socket())
	defer client.Close()
	if err := client.Call(t.Context(), "bdev_malloc_create", map[string]any{"name": "Malloc0", "num_blocks": 2048, "block_size": 512}, nil); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	where := []string{"--target", "spdk", "--socket", fake.Socket()}
	out := m.mustRun(append(exportArgs("Malloc0"), where...)...)
	if want := nqn + " exports /bdev/Malloc0 as "; !strings.Contains(out, want) {
		t.Errorf("output %q, want %q in it", out, want)
	}
	if out := m.mustRun(append([]string{"list"}, where...)...); !strings.Contains(out, "/bdev/Malloc0") || !strings.Contains(out, "tcp://10.0.0.1:4420") {
		t.Errorf("list:\n%s", out)
	}
	if code, _, stderr := m.run(append(exportArgs("none", "--nqn", nqn+"-2"), where...)...); code != ctl.ExitFailure || !strings.Contains(stderr, "none") {
		t.Errorf("bdev that is not there: exit %d, %s", code, stderr)
	}
	m.mustRun(append([]string{"unexport", nqn}, where...)...)
	if len(m.kernel.Trace()) > 0 {
		t.Error("the kernel's target was changed")
	}
}
