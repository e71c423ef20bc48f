package badinput

import (
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// stranger is an export that somebody else made on the storage node, and that
// the node itself is connected to: a foreign subsystem for the target, a foreign
// controller among the local drives for the inventory.
const stranger = "nqn.2014-08.org.example:stranger"

const makeStranger = `set -e
truncate -s 64M /var/tmp/stranger.img
cd /sys/kernel/config/nvmet
mkdir subsystems/$1; echo 1 >subsystems/$1/attr_allow_any_host
mkdir subsystems/$1/namespaces/1
echo /var/tmp/stranger.img >subsystems/$1/namespaces/1/device_path
echo 1 >subsystems/$1/namespaces/1/buffered_io
echo 1 >subsystems/$1/namespaces/1/enable
mkdir ports/64000; cd ports/64000
echo ipv4 >addr_adrfam; echo tcp >addr_trtype; echo $2 >addr_traddr; echo 4499 >addr_trsvcid
ln -s ../../subsystems/$1 subsystems/$1
nvme connect -t tcp -a $2 -s 4499 -n $1`

const removeStranger = `nvme disconnect -n $1
cd /sys/kernel/config/nvmet
rm ports/64000/subsystems/$1; rmdir ports/64000
rmdir subsystems/$1/namespaces/1 subsystems/$1
rm /var/tmp/stranger.img`

// TestDrivesOfOthersAreNeverTaken shows drives with somebody else's data, one
// after the other on the same drive, beside a foreign NVMe-oF controller.
func TestDrivesOfOthersAreNeverTaken(t *testing.T) {
	l := suite.Open(t)
	f := suite.Flow(t, l, namespace)
	ctx := t.Context()
	storage := suite.Guest(t, l, "storage")
	node, err := layout.Find("storage")
	suite.Must(t, err)
	serial := node.Drives[len(node.Drives)-1]
	device, err := f.DeviceName(ctx, serial)
	suite.Must(t, err)
	drive := drive{Client: storage, name: device, path: devicePath(t, storage, serial)}

	output(t, storage, "sh", "-c", makeStranger, "sh", stranger, node.Address())

	suite.Must(t, f.ClaimDrive(ctx, "nowhere", "NOSUCHSERIAL"))
	message, err := f.WaitDriveClaim(ctx, "nowhere", v1alpha1.ReasonDeviceNotFound)
	suite.Must(t, err)
	mustContain(t, message, "NOSUCHSERIAL")
	suite.Must(t, f.DeleteDriveClaim(ctx, "nowhere"))

	const mountpoint = "/run/foreign"
	cases := []struct {
		name, reason string
		prepare      string
		claim        string
		want         string
		undo         string
	}{
		{"a filesystem", v1alpha1.ReasonForeignSignature, `mkfs.ext4 -q -F "$1"`, v1alpha1.ReasonDriveNotBlank, "ext4", `wipefs -q --all "$1"`},
		{"a partition table", v1alpha1.ReasonForeignSignature, `echo size=64M | sfdisk -q --label gpt "$1"`, v1alpha1.ReasonDriveNotBlank, "gpt", `wipefs -q --all "$1"; partx -d "$1" || true`},
		{"a mount", v1alpha1.ReasonInUse, `mkfs.ext4 -q -F "$1" && mkdir -p ` + mountpoint + ` && mount "$1" ` + mountpoint, v1alpha1.ReasonDriveUnavailable, mountpoint, "umount " + mountpoint + `; wipefs -q --all "$1"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			drive.change(t, c.prepare)
			_, err := f.WaitDevice(t.Context(), drive.name, v1alpha1.ConditionMediaUsable, c.reason)
			suite.Must(t, err)
			suite.Must(t, f.ClaimDrive(t.Context(), "foreign", serial))
			message, err := f.WaitDriveClaim(t.Context(), "foreign", c.claim)
			suite.Must(t, err)
			t.Log(message)
			mustContain(t, message, c.want)
			drive.change(t, c.undo)
			_, err = f.WaitDriveClaim(t.Context(), "foreign", v1alpha1.ReasonBound)
			suite.Must(t, err)
			suite.Must(t, f.DeleteDriveClaim(t.Context(), "foreign"))
		})
	}

	devices := &v1alpha1.NVMeDeviceList{}
	suite.Must(t, f.Client().List(ctx, devices))
	if len(devices.Items) != len(layout.Drives()) {
		t.Errorf("%d NVMeDevices, want %d: the foreign controller is none", len(devices.Items), len(layout.Drives()))
	}
	// It is as it was, and can be taken down by its owner.
	output(t, storage, "test", "-d", "/sys/kernel/config/nvmet/subsystems/"+stranger+"/namespaces/1")
	output(t, storage, "sh", "-e", "-c", removeStranger, "sh", stranger)
}

// drive is a drive of the storage guest.
type drive struct {
	*guestexec.Client
	// name is the NVMeDevice's, path the device node.
	name, path string
}

// change runs a script on the device node, and makes the kernel tell of the
// drive's controller, so that the agent looks at once.
func (d drive) change(t *testing.T, script string) {
	t.Helper()
	output(t, d.Client, "sh", "-c", script, "sh", d.path)
	output(t, d.Client, "sh", "-c", `echo change >"/sys/class/nvme/$1/uevent"`, "sh", strings.TrimSuffix(strings.TrimPrefix(d.path, "/dev/"), "n1"))
}

// devicePath finds namespace 1 of the drive with that serial.
func devicePath(t *testing.T, guest *guestexec.Client, serial string) string {
	t.Helper()
	controller := output(t, guest, "sh", "-c", `cd /sys/class/nvme && for c in nvme*; do [ "$(tr -d ' ' <$c/serial)" = "$1" ] && echo $c; done; true`, "sh", serial)
	return "/dev/" + controller + "n1"
}

func mustContain(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("message %q does not name %q", text, part)
	}
}
