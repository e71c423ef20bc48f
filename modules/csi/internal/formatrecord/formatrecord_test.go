package formatrecord_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/formatrecord"
)

const node = "worker-1"

var (
	server *controlplanetest.Server
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	record = formatonce.Record{Type: "ext4", UUID: "11111111-1111-4111-8111-111111111111", StartedAt: noon, FormattedAt: noon.Add(time.Second)}
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(controlplanetest.Main(m, func(s *controlplanetest.Server) { server = s }))
}

func attachment(t *testing.T) *v1alpha1.NVMeVolumeAttachment {
	t.Helper()
	a := &v1alpha1.NVMeVolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "att-1", Finalizers: []string{v1alpha1.AccessFinalizer}},
		Spec: v1alpha1.NVMeVolumeAttachmentSpec{
			VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: "x", Name: "pvc-1", UID: "1"},
			TargetNode: "storage-1", NodeID: node, HostNQN: identity.HostNQN(node), AttachmentID: "22222222-2222-4222-8222-222222222222",
		},
	}
	if err := server.Client().Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	// As distort-agent leaves it, before anything can be staged.
	a.Status.ObservedAttachmentID = a.Spec.AttachmentID
	if err := server.Client().Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func refOf(a *v1alpha1.NVMeVolumeAttachment) formatonce.AttachmentRef {
	return formatonce.AttachmentRef{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID)}
}

func TestWhatIsSavedIsLoadedAndNothingElseChanges(t *testing.T) {
	r, a := formatrecord.New(node, server.Client()), attachment(t)
	if got, err := r.Load(t.Context(), refOf(a)); err != nil || got != (formatonce.Record{}) {
		t.Errorf("before: %+v, %v", got, err)
	}
	started := record
	started.FormattedAt = time.Time{}
	for _, want := range []formatonce.Record{started, record} {
		if err := r.Save(t.Context(), refOf(a), want); err != nil {
			t.Fatal(err)
		}
		got, err := r.Load(t.Context(), refOf(a))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	var after v1alpha1.NVMeVolumeAttachment
	if err := server.Client().Get(t.Context(), client.ObjectKeyFromObject(a), &after); err != nil {
		t.Fatal(err)
	}
	if after.Status.ObservedAttachmentID != a.Spec.AttachmentID {
		t.Error("the agent's part of the status was changed")
	}
}

func TestAnAttachmentThatIsNotThisNodesIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		change func(*testing.T, *v1alpha1.NVMeVolumeAttachment, *formatonce.AttachmentRef)
		// written: the record arrives, and the answer is refused all the same.
		written bool
	}{
		"another life of the name (SE8)": {node, func(_ *testing.T, _ *v1alpha1.NVMeVolumeAttachment, ref *formatonce.AttachmentRef) {
			ref.UID = "33333333-3333-4333-8333-333333333333"
		}, false},
		"another node's": {"worker-2", func(*testing.T, *v1alpha1.NVMeVolumeAttachment, *formatonce.AttachmentRef) {}, false},
		"being withdrawn": {node, func(t *testing.T, a *v1alpha1.NVMeVolumeAttachment, _ *formatonce.AttachmentRef) {
			if err := server.Client().Delete(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}, true},
		"gone": {node, func(_ *testing.T, _ *v1alpha1.NVMeVolumeAttachment, ref *formatonce.AttachmentRef) {
			ref.Name = "att-2"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := formatrecord.New(c.node, server.Client()), attachment(t)
			ref := refOf(a)
			c.change(t, a, &ref)
			if _, err := r.Load(t.Context(), ref); err == nil {
				t.Error("loaded")
			}
			if err := r.Save(t.Context(), ref, record); err == nil {
				t.Error("saved")
			} else if c.written && !errors.Is(err, formatrecord.ErrNotOurs) {
				t.Errorf("got %v", err)
			}
			var after v1alpha1.NVMeVolumeAttachment
			if err := server.Client().Get(t.Context(), client.ObjectKeyFromObject(a), &after); err != nil {
				t.Fatal(err)
			}
			if !c.written && after.Status.Filesystem != nil {
				t.Errorf("record was written: %+v", after.Status.Filesystem)
			}
		})
	}
}
