package pools

import (
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/e2e/internal/zpool"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// unowned makes the imported pools others than the declared ones. While they are, a
// deletion waits, and a pod goes on with its zvol. Change returns a GUID that is not
// declared.
func unowned(idle string, change func(*testing.T, *world) (guid string), undo func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		ctx := t.Context()
		volume := w.provision(t, flow.Claim{Name: idle, Size: "64Mi"})
		guid := change(t, w)
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

		undo(t, w)
		_, err = w.WaitStorageNode(ctx, w.node, v1alpha1.ReasonObservationSucceeded)
		suite.Must(t, err)
		suite.Must(t, gone(ctx))
	}
}

const strange = "stranger"

func importStranger(t *testing.T, w *world) string {
	guid, err := zpool.Create(t.Context(), w.storage, strange, "256M")
	suite.Must(t, err)
	return guid
}

func removeStranger(t *testing.T, w *world) {
	suite.Must(t, zpool.Destroy(t.Context(), w.storage, strange))
}

func becomeAnother(t *testing.T, w *world) string {
	guid, err := zpool.ChangeGUID(t.Context(), w.storage, pool, "")
	suite.Must(t, err)
	return guid
}

func becomeItself(t *testing.T, w *world) {
	guid, err := zpool.ChangeGUID(t.Context(), w.storage, pool, w.guid)
	suite.Must(t, err)
	if guid != w.guid {
		t.Fatalf("pool %s has GUID %s, want %s", pool, guid, w.guid)
	}
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
