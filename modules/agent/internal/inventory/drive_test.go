package inventory_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

func serials(s inventory.Scan) []string {
	var out []string
	for _, d := range s.Drives {
		out = append(out, d.Serial+"="+d.Name)
	}
	return out
}

func TestScanReadsNamespaceOneOfEachLocalDrive(t *testing.T) {
	scan := newReader(t, unpack(t, "storage-all-bound")).Scan(t.Context())
	drive := func(serial, pci, controller, name string, minor uint32, size int64) inventory.Drive {
		return inventory.Drive{Serial: serial, Model: "QEMU NVMe Ctrl", PCIAddress: pci, NUMANode: -1,
			Controller: controller, State: inventory.StateLive, Name: name, Path: "/dev/" + name,
			Dev: inventory.DevNum{Major: 259, Minor: minor}, SizeBytes: size, BlockBytes: 512}
	}
	want := inventory.Scan{Complete: true, Drives: []inventory.Drive{
		drive("DISTORT0001", "0000:00:04.0", "nvme1", "nvme1n1", 4, 2<<30),
		drive("DISTORT0002", "0000:00:05.0", "nvme0", "nvme0n1", 0, 1<<30),
		drive("DISTORT0003", "0000:01:00.0", "nvme3", "nvme3n1", 2, 1<<30),
		drive("DISTORT0004", "0000:00:06.0", "nvme2", "nvme2n1", 1, 1<<30),
	}}
	if diff := cmp.Diff(want, scan); diff != "" {
		t.Errorf("scan (-want +got):\n%s", diff)
	}
}

func TestScanSkipsRemoteVolumesHiddenPathsAndDiscoveryControllers(t *testing.T) {
	for _, name := range []string{
		"ini-two-volumes", "ini-multipath-N", "ini-discovery-ctrl", "ini-head-held-reconnected", "ini-all-paths-down",
	} {
		t.Run(name, func(t *testing.T) {
			scan := newReader(t, unpack(t, name)).Scan(t.Context())
			if diff := cmp.Diff([]string{"LOCAL0001=nvme0n1"}, serials(scan)); diff != "" {
				t.Errorf("drives (-want +got):\n%s", diff)
			}
			if !scan.Complete || len(scan.Problems) != 0 {
				t.Errorf("complete = %v, problems = %v", scan.Complete, scan.Problems)
			}
		})
	}
}

func TestUnboundFunctionMakesAbsenceUnknown(t *testing.T) {
	scan := newReader(t, unpack(t, "storage-one-unbound")).Scan(t.Context())
	if len(scan.Drives) != 3 || scan.Complete {
		t.Fatalf("drives = %v, complete = %v; want 3 drives of an incomplete scan", serials(scan), scan.Complete)
	}
	_, err := scan.Find("DISTORT0004")
	if !errors.Is(err, inventory.ErrNotFound) || !strings.Contains(err.Error(), "0000:00:06.0") {
		t.Errorf("Find = %v; want not found, naming the unbound function", err)
	}
}

func TestDeniedDrivesAreNotInventory(t *testing.T) {
	deny := func(c *inventory.Config) { c.Deny = []string{"DISTORT0001", "0000:00:06.0"} }
	scan := newReader(t, unpack(t, "storage-one-unbound"), deny).Scan(t.Context())
	if diff := cmp.Diff([]string{"DISTORT0002=nvme0n1", "DISTORT0003=nvme3n1"}, serials(scan)); diff != "" {
		t.Errorf("drives (-want +got):\n%s", diff)
	}
	if !scan.Complete {
		t.Errorf("a denied function without a driver made the scan incomplete: %v", scan.Problems)
	}
}

// Fault DI1: both drives are named and neither is used.
func TestDuplicateSerialIdentifiesNoDrive(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	write(t, roots.Sys+"/class/nvme/nvme3/serial", "DISTORT0001         \n")
	scan := newReader(t, roots).Scan(t.Context())
	_, err := scan.Find("DISTORT0001")
	if !errors.Is(err, inventory.ErrDuplicateSerial) {
		t.Fatalf("Find = %v, want ErrDuplicateSerial", err)
	}
	for _, text := range []string{err.Error(), scan.Problems[0].String()} {
		if !strings.Contains(text, "0000:00:04.0") || !strings.Contains(text, "0000:01:00.0") {
			t.Errorf("message does not name both drives: %s", text)
		}
	}
	if len(scan.Drives) != 4 || !scan.Complete {
		t.Errorf("drives = %v, complete = %v", serials(scan), scan.Complete)
	}
}

func TestSerialIsComparedExactly(t *testing.T) {
	scan := newReader(t, unpack(t, "storage-all-bound")).Scan(t.Context())
	for _, serial := range []string{"DISTORT000", "distort0001", "DISTORT0001 ", ""} {
		if _, err := scan.Find(serial); !errors.Is(err, inventory.ErrNotFound) {
			t.Errorf("Find(%q) = %v, want ErrNotFound", serial, err)
		}
	}
}

func TestDriveThatCannotBeUsedIsNamed(t *testing.T) {
	const controller = "/class/nvme/nvme1"
	tests := map[string]struct {
		spoil    func(t *testing.T, sys string)
		message  string
		complete bool
		listed   bool
	}{
		"no namespace 1": {
			spoil:    func(t *testing.T, sys string) { write(t, sys+controller+"/nvme1n1/nsid", "2\n") },
			message:  "no namespace 1",
			complete: true,
		},
		"namespace of size 0": {
			spoil:    func(t *testing.T, sys string) { write(t, sys+controller+"/nvme1n1/size", "0\n") },
			message:  "size 0",
			complete: true,
		},
		"size is not a number": {
			spoil:    func(t *testing.T, sys string) { write(t, sys+controller+"/nvme1n1/size", "many\n") },
			message:  `"many" is not a number`,
			complete: true,
		},
		"controller is resetting": {
			spoil:    func(t *testing.T, sys string) { write(t, sys+controller+"/state", "resetting\n") },
			message:  `"resetting", not live`,
			complete: true,
			listed:   true,
		},
		"serial is empty": {
			spoil:   func(t *testing.T, sys string) { write(t, sys+controller+"/serial", "                    \n") },
			message: "serial number",
		},
		"serial cannot be read": {
			spoil:   func(t *testing.T, sys string) { remove(t, sys+controller+"/serial") },
			message: "serial number",
		},
		"transport cannot be read": {
			spoil:   func(t *testing.T, sys string) { remove(t, sys+controller+"/transport") },
			message: "transport",
		},
		"bad PCI address": {
			spoil:   func(t *testing.T, sys string) { write(t, sys+controller+"/address", "../../etc\n") },
			message: "PCI address",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			roots := unpack(t, "storage-all-bound")
			tc.spoil(t, roots.Sys)
			scan := newReader(t, roots).Scan(t.Context())
			if len(scan.Problems) != 1 || !strings.Contains(scan.Problems[0].String(), tc.message) ||
				!strings.Contains(scan.Problems[0].Subject, "nvme1") {
				t.Errorf("problems = %v; want one about nvme1 with %q", scan.Problems, tc.message)
			}
			if scan.Complete != tc.complete {
				t.Errorf("complete = %v, want %v", scan.Complete, tc.complete)
			}
			want := 3
			if tc.listed {
				want = 4
			}
			if len(scan.Drives) != want {
				t.Errorf("drives = %v, want %d", serials(scan), want)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A drive with two ports has two controllers, hidden path nodes below them, and
// one head below the subsystem.
func TestDualPortedDriveIsOneDrive(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	class := roots.Sys + "/class"
	subsystem := class + "/nvme-subsystem/nvme-subsys1"
	if err := os.Rename(class+"/nvme/nvme1/nvme1n1", subsystem+"/nvme1n1"); err != nil {
		t.Fatal(err)
	}
	write(t, class+"/nvme/nvme1/nvme1c1n1/nsid", "1\n")
	write(t, class+"/nvme/nvme1/nvme1c1n1/hidden", "1\n")
	for attr, value := range map[string]string{
		"transport": "pcie", "address": "0000:02:00.0", "serial": "DISTORT0001", "model": "QEMU NVMe Ctrl",
		"cntrltype": "io", "state": "live", "nvme1c5n1/nsid": "1", "nvme1c5n1/hidden": "1",
	} {
		write(t, class+"/nvme/nvme5/"+attr, value+"\n")
	}
	if err := os.Symlink(class+"/nvme/nvme5", subsystem+"/nvme5"); err != nil {
		t.Fatal(err)
	}
	scan := newReader(t, roots).Scan(t.Context())
	d, err := scan.Find("DISTORT0001")
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "nvme1n1" || len(scan.Drives) != 4 || len(scan.Problems) != 0 {
		t.Errorf("drive = %+v, drives = %v, problems = %v", d, serials(scan), scan.Problems)
	}
}

func TestHostWithoutNVMeIsACompleteEmptyScan(t *testing.T) {
	scan := newReader(t, inventory.Roots{Sys: t.TempDir(), Proc: t.TempDir(), Dev: "/dev"}).Scan(t.Context())
	if diff := cmp.Diff(inventory.Scan{Complete: true}, scan); diff != "" {
		t.Errorf("scan (-want +got):\n%s", diff)
	}
}

func TestStoppedScanIsNotComplete(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if scan := newReader(t, unpack(t, "storage-all-bound")).Scan(ctx); scan.Complete {
		t.Error("a scan whose context ended says that it is complete")
	}
}

// Reading nuse or hwmon sends a command to the drive, which hangs on a dead one.
// A FIFO without a writer hangs its reader in the same way.
func TestScanReadsNothingThatSendsCommands(t *testing.T) {
	roots := unpack(t, "storage-all-bound")
	var traps int
	err := filepath.WalkDir(roots.Sys, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if e.Name() == "nuse" || strings.Contains(path, "/hwmon") {
			traps++
			remove(t, path)
			return syscall.Mkfifo(path, 0o600)
		}
		return nil
	})
	if err != nil || traps == 0 {
		t.Fatalf("%d traps, %v", traps, err)
	}
	done := make(chan inventory.Scan, 1)
	go func() { done <- newReader(t, roots).Scan(context.Background()) }()
	select {
	case scan := <-done:
		if len(scan.Drives) != 4 {
			t.Errorf("drives = %v", serials(scan))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the scan hangs in an attribute that sends commands")
	}
}

// A drive that SPDK has is among the others once somebody says which one it is.
func TestAdoptedDrivesCompleteTheScan(t *testing.T) {
	function := inventory.Function{Address: "0000:00:05.0", Driver: "vfio-pci", NUMANode: -1}
	other := inventory.Function{Address: "0000:00:06.0", Driver: "", NUMANode: -1}
	problem := func(f inventory.Function) inventory.Problem {
		return inventory.Problem{Source: inventory.SourcePCI, Subject: f.Address, Message: "unknown"}
	}
	mine := inventory.Drive{Serial: "B", PCIAddress: function.Address, State: inventory.StateLive, Name: "nvme_Bn1", Bdev: "nvme_Bn1"}
	kernels := inventory.Drive{Serial: "A", PCIAddress: "0000:00:04.0", State: inventory.StateLive, Name: "nvme0n1"}
	for name, tc := range map[string]struct {
		scan     inventory.Scan
		complete bool
		problems int
	}{
		"the only one":                    {inventory.Scan{Functions: []inventory.Function{function}, Problems: []inventory.Problem{problem(function)}}, true, 0},
		"beside another":                  {inventory.Scan{Functions: []inventory.Function{function, other}, Problems: []inventory.Problem{problem(function), problem(other)}}, false, 1},
		"in a scan that is not complete":  {inventory.Scan{Hidden: true, Functions: []inventory.Function{function}, Problems: []inventory.Problem{problem(function)}}, false, 0},
		"with a serial number of another": {inventory.Scan{Drives: []inventory.Drive{{Serial: "B", Dev: inventory.DevNum{Major: 1}}}, Functions: []inventory.Function{function}, Problems: []inventory.Problem{problem(function)}}, true, 1},
	} {
		tc.scan.Drives = append(tc.scan.Drives, kernels)
		got := tc.scan.Adopt([]inventory.Drive{mine})
		if got.Complete != tc.complete || len(got.Problems) != tc.problems || len(got.Drives) != len(tc.scan.Drives)+1 {
			t.Errorf("%s: %+v", name, got)
		}
		if len(tc.scan.Problems) == 0 {
			t.Errorf("%s: the scan itself was changed", name)
		}
	}
}
