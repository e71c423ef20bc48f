package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/layout"
)

func TestEmulatorGetsEachDriveWithItsSerial(t *testing.T) {
	node, err := layout.Find("storage")
	if err != nil {
		t.Fatal(err)
	}
	machine := Machine{
		Node: node, Tap: "tap0", Kernel: "/k", Initrd: "/i", RootDisk: "/root,disk", ImageDisk: "/images", LabDisk: "/lab",
		DriveFile: func(serial string) string { return "/drives/" + serial }, Console: "/console", Monitor: "/qmp",
	}
	args := machine.Arguments()
	for _, serial := range node.Drives {
		device := slices.IndexFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, `{"driver":"nvme"`) && strings.Contains(arg, `"serial":"`+serial+`"`)
		})
		if device < 3 || !strings.HasSuffix(args[device-2], "file.filename=/drives/"+serial) {
			t.Errorf("no drive with serial %s in %v", serial, args)
		}
	}
	for _, want := range []string{
		"if=none,cache=unsafe,id=root,format=qcow2,file=/root,,disk",
		"if=none,cache=unsafe,id=lab,format=raw,file=/lab,readonly=on",
		"tap,id=net0,ifname=tap0,script=no,downscript=no",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("no argument %q in %v", want, args)
		}
	}
}

func TestOnlyStorageNodesLoadTheTargetAndCarryTheLabel(t *testing.T) {
	for _, node := range layout.Nodes() {
		spec := Spec(node, layout.Nodes(), SpecInput{})
		target := slices.Contains(spec.Modules, "nvmet-rdma")
		labelled := strings.Contains(strings.Join(spec.Services[1].Args, " "), layout.StorageNodeLabel)
		if want := node.Role == layout.Storage; target != want || labelled != want {
			t.Errorf("%s: loads nvmet %t, labelled %t; want %t", node.Name, target, labelled, want)
		}
		crc, rxe := slices.Index(spec.Modules, "crc32_generic"), slices.Index(spec.Modules, "rdma_rxe")
		if crc < 0 || crc > rxe {
			t.Errorf("%s: crc32_generic must be loaded before rdma_rxe: %v", node.Name, spec.Modules)
		}
	}
}

func TestGuestsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, node := range layout.Nodes() {
		for what, value := range map[string]string{
			"address": node.Address(), "mac": node.MAC(), "pods": node.PodCIDR(), "machine": node.MachineID(), "host": node.HostID(),
		} {
			if other, ok := seen[what+value]; ok {
				t.Errorf("%s and %s have one %s, %s", node.Name, other, what, value)
			}
			seen[what+value] = node.Name
		}
	}
}

func TestOwnInitrdIsTheSharedOneAndTheSpec(t *testing.T) {
	dir := t.TempDir()
	base, own := filepath.Join(dir, "base"), filepath.Join(dir, "own")
	if err := os.WriteFile(base, []byte("BASE"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := guestspec.Spec{Name: "x"}
	if err := writeInitrd(own, base, spec); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	want, err := spec.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(data), "BASE070701") || !strings.Contains(string(data), string(want)) {
		t.Errorf("initrd is %q", data)
	}
}
