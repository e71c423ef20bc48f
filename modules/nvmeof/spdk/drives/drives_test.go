package drives_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/drives"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

const address = "0000:00:04.0"

func start(t *testing.T) (*spdkfake.Server, *rpc.Client) {
	t.Helper()
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"))
	if err != nil {
		t.Fatal(err)
	}
	fake.AddDrive(spdkfake.Drive{Address: address, Serial: "S3R1AL", Model: "Fake", Bytes: 1 << 30})
	client := rpc.New(fake.Socket())
	t.Cleanup(func() {
		client.Close()
		fake.Close()
		if c := fake.Collisions(); len(c) > 0 {
			t.Errorf("changes of one object in flight together: %v", c)
		}
	})
	return fake, client
}

func TestADriveIsAttachedOnceAndNamed(t *testing.T) {
	fake, client := start(t)
	d := drives.New(client)
	want := drives.Drive{Name: "nvme_a", Address: address, Serial: "S3R1AL", Model: "Fake", Bdev: "nvme_an1", SizeBytes: 1 << 30, BlockBytes: 512}
	for _, name := range []string{"nvme_a", "nvme_b"} { // attached once, by whatever name
		got, err := d.Attach(t.Context(), name, address)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	fake.Restart()
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after a restart: %+v, %v", all, err)
	}
	if _, err := d.Attach(t.Context(), "nvme_x", "0000:00:09.0"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("an empty slot: %v", err)
	}
}

func TestLostAnswersAreReadBack(t *testing.T) {
	for fault, attached := range map[spdkfake.Fault]bool{spdkfake.RestartBefore: false, spdkfake.RestartAfter: false} {
		fake, client := start(t)
		d := drives.New(client)
		fake.On("bdev_nvme_attach_controller", fault)
		if _, err := d.Attach(t.Context(), "nvme_a", address); (err == nil) != attached {
			t.Errorf("fault %d: %v", fault, err)
		}
		if _, err := d.Attach(t.Context(), "nvme_a", address); err != nil {
			t.Errorf("fault %d, again: %v", fault, err)
		}
	}
}

func TestADriveIsNotDetachedUnderAnExport(t *testing.T) {
	fake, client := start(t)
	d, volumes, target := drives.New(client), lvol.New(client), spdk.New(client)
	drive, err := d.Attach(t.Context(), "nvme_a", address)
	if err != nil {
		t.Fatal(err)
	}
	store, err := volumes.EnsureStore(t.Context(), lvol.StoreSpec{Device: "a", Bdev: drive.Bdev, Zero: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := volumes.Ensure(t.Context(), lvol.Spec{StoreUUID: store.UUID, Name: "v", SizeBytes: 4 << 20, Zero: true})
	if err != nil {
		t.Fatal(err)
	}
	const nqn = "nqn.2026-02.io.distort:volume-a"
	id := nvmeof.DeriveUUID(nqn)
	if _, err := target.Ensure(t.Context(), nvmeof.Subsystem{NQN: nqn, Serial: "A", Model: "DISTORT",
		Namespaces: []nvmeof.Namespace{{NSID: 1, DevicePath: v.DevicePath(), UUID: id, NGUID: id.NGUID()}}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Detach(t.Context(), "nvme_a"); !errors.Is(err, drives.ErrInUse) {
		t.Errorf("exported: %v", err)
	}
	if _, err := target.Remove(t.Context(), nqn); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Detach(t.Context(), "nvme_a"); err != nil {
			t.Errorf("unused: %v", err)
		}
	}
	if !fake.Stored(address) {
		t.Error("what was on the drive went with it")
	}
	if _, err := d.Attach(t.Context(), "nvme_a", address); err != nil {
		t.Fatal(err)
	}
	if got, err := volumes.Get(t.Context(), v.UUID); err != nil || got.Name != "v" {
		t.Errorf("attached again: %+v, %v", got, err)
	}
}
