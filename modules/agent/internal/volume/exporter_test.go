package volume_test

import (
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
)

// A host that an attachment admits is no repair, also when the volume's reconciler
// is faster than the attachment's; one that was lost is.
func TestAnAdmissionIsNoRepair(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	p := node.Partition("pvc-1", sliceSize)
	api := newAPI(t, p)
	process := node.Boot(t, nil)
	locator := volume.NewLocator(node, process.Manager)
	backend := export.NewKernel(process.Target)
	exporter := volume.NewExporter(api, export.NewBackends(backend), volume.NewHostPortals(node, 4420, 4421), node)
	d, err := locator.Drive(t.Context(), "S1")
	if err != nil {
		t.Fatal(err)
	}
	slice, err := locator.Make(t.Context(), p, d)
	if err != nil {
		t.Fatal(err)
	}
	ensure := func(what string, changes, readmitted, repaired bool) {
		t.Helper()
		o, err := exporter.Ensure(t.Context(), p, slice.DevicePath)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Changes) > 0 != changes || o.Readmitted != readmitted || o.Repaired() != repaired {
			t.Errorf("%s: %+v, repaired %t", what, o, o.Repaired())
		}
	}
	ensure("new", true, false, false)
	ensure("the same", false, false, false)
	attachment := node.Attachment(p, "consumer-0")
	if err := api.Create(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	ensure("admitted", true, true, false)
	if _, err := backend.Revoke(t.Context(), p.UID, identity.HostNQN("consumer-0")); err != nil {
		t.Fatal(err)
	}
	ensure("a host that was lost", true, false, true)
	if err := api.Delete(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	ensure("fenced", true, true, false)
}
