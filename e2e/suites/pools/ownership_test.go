package pools

import (
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/e2e/internal/zpool"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// A pod goes on with its zvol while a deletion on the same pool waits.
func stranger(t *testing.T, w *world) {
	const other, idle = "stranger", "idle"
	ctx := t.Context()
	volume := w.provision(t, flow.Claim{Name: idle, Size: "64Mi"})
	guid, err := zpool.Create(ctx, w.storage, other, "256M")
	suite.Must(t, err)
	message, err := w.WaitStorageNode(ctx, w.node, v1alpha1.ReasonPoolIdentityMismatch, guid)
	suite.Must(t, err)
	t.Log(message)

	gone, err := w.RequestDeletion(ctx, idle)
	suite.Must(t, err)
	suite.Must(t, w.WaitVolume(ctx, volume.Name, v1alpha1.ConditionExported, v1alpha1.ReasonDeleting, "waits for the pool", guid))
	found, err := zpool.Property(ctx, w.storage, "guid", volume.Status.DatasetPath)
	suite.Must(t, err)
	if found != volume.Status.DatasetGUID {
		t.Errorf("zvol %s is %s, want %s", volume.Status.DatasetPath, found, volume.Status.DatasetGUID)
	}
	w.mustHave(t, source, first, w.write(t, source))

	suite.Must(t, zpool.Destroy(ctx, w.storage, other))
	_, err = w.WaitStorageNode(ctx, w.node, v1alpha1.ReasonObservationSucceeded)
	suite.Must(t, err)
	suite.Must(t, gone(ctx))
}

// What lies on the new pool where DISTORT's zvols would lie is somebody's.
func replaced(t *testing.T, w *world) {
	const (
		claim = "nowhere"
		mine  = pool + "/distort/block/mine"
	)
	ctx := t.Context()
	suite.Must(t, zpool.Destroy(ctx, w.storage, pool))
	guid, err := zpool.Create(ctx, w.storage, pool, poolSize)
	suite.Must(t, err)
	_, err = w.storage.Output(ctx, "zfs", "create", "-p", "-V", "64M", mine)
	suite.Must(t, err)
	message, err := w.WaitStorageNode(ctx, w.node, v1alpha1.ReasonPoolIdentityMismatch, w.guid, guid)
	suite.Must(t, err)
	t.Log(message)

	suite.Must(t, w.CreateClaim(ctx, flow.Claim{Name: claim, Class: class, Size: "64Mi"}))
	message, err = w.WaitEvent(ctx, "PersistentVolumeClaim", claim, "ProvisioningFailed", "ResourceExhausted")
	suite.Must(t, err)
	t.Log(message)
	w.mustHold(t, mine)
	suite.Must(t, w.DeleteClaim(ctx, claim))
	suite.Must(t, w.DeleteStorageNode(ctx, w.node))
	w.mustHold(t, mine)
	suite.Must(t, zpool.Destroy(ctx, w.storage, pool))
}
