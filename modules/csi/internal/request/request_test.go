package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

const namespace = "distort-system"

var ours = handle.Handle{Kind: handle.NVMePartition, Namespace: namespace, Name: "pvc-1", UID: "11111111-1111-4111-8111-111111111111"}

func TestVolumeIDsAreHandlesOrNothing(t *testing.T) {
	zvol := handle.Handle{Kind: handle.Volume, Name: ours.Name, UID: ours.UID}
	for _, want := range []handle.Handle{ours, zvol} {
		if got, err := request.ParseVolumeID(want.String(), namespace); err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	for name, c := range map[string]struct {
		id   string
		want error
	}{
		"none":                        {"", request.ErrInvalid},
		"some text":                   {"pvc-1", request.ErrNoVolume},
		"a path (SE1)":                {"partition:../..:etc:" + ours.UID, request.ErrNoVolume},
		"a mount option (SE4)":        {"partition:distort-system:pvc-1,ro:" + ours.UID, request.ErrNoVolume},
		"a control byte":              {ours.String() + "\n", request.ErrNoVolume},
		"endless":                     {strings.Repeat("x", 1<<16), request.ErrNoVolume},
		"a snapshot":                  {"snapshot::s-1:" + ours.UID, request.ErrInvalid},
		"a kind of tomorrow":          {"dataset::pvc-1:" + ours.UID, request.ErrInvalid},
		"another namespace (SE8)":     {strings.Replace(ours.String(), namespace, "kube-system", 1), request.ErrInvalid},
		"upper case":                  {strings.ToUpper(ours.String()), request.ErrNoVolume},
		"a UID that is not canonical": {strings.Replace(ours.String(), "4111", "", 1), request.ErrNoVolume},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := request.ParseVolumeID(c.id, namespace); !errors.Is(err, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func FuzzParseVolumeID(f *testing.F) {
	f.Add(ours.String())
	f.Add("partition:a:b:c")
	f.Fuzz(func(t *testing.T, id string) {
		h, err := request.ParseVolumeID(id, namespace)
		if err == nil && (h.String() != id || strings.ContainsAny(id, "/,\x00\n ")) {
			t.Errorf("%q became %q", id, h)
		}
		if err != nil && !errors.Is(err, request.ErrInvalid) && !errors.Is(err, request.ErrNoVolume) {
			t.Errorf("error of no kind: %v", err)
		}
	})
}

func TestParsePublishRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*csi.ControllerPublishVolumeRequest)
		want   error
		says   string
	}{
		"no volume":              {func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = "" }, request.ErrInvalid, "volume_id is missing"},
		"no node":                {func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "" }, request.ErrInvalid, "node_id is missing"},
		"no capability":          {func(r *csi.ControllerPublishVolumeRequest) { r.VolumeCapability = nil }, request.ErrInvalid, "volume_capability is missing"},
		"a node that is no name": {func(r *csi.ControllerPublishVolumeRequest) { r.NodeId = "a/b" }, request.ErrInvalid, `"a/b"`},
		"readonly":               {func(r *csi.ControllerPublishVolumeRequest) { r.Readonly = true }, request.ErrInvalid, "PUBLISH_READONLY"},
		"a bad context":          {func(r *csi.ControllerPublishVolumeRequest) { r.VolumeContext = map[string]string{"traddr": "x"} }, request.ErrInvalid, "traddr"},
		"no such volume":         {func(r *csi.ControllerPublishVolumeRequest) { r.VolumeId = "x" }, request.ErrNoVolume, ""},
		"no such volume and no capability": {func(r *csi.ControllerPublishVolumeRequest) {
			r.VolumeId, r.VolumeCapability = "x", nil
		}, request.ErrInvalid, "volume_capability"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &csi.ControllerPublishVolumeRequest{VolumeId: ours.String(), NodeId: "worker-1", VolumeCapability: mount(writer, "")}
			if _, err := request.ParsePublish(r, namespace); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			c.change(r)
			if _, err := request.ParsePublish(r, namespace); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
}

func TestParseUnpublishTakesNoNodeForAllNodes(t *testing.T) {
	got, err := request.ParseUnpublish(&csi.ControllerUnpublishVolumeRequest{VolumeId: ours.String()}, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(request.Unpublish{Volume: ours}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := request.ParseUnpublish(&csi.ControllerUnpublishVolumeRequest{VolumeId: ours.String(), NodeId: "a/b"}, namespace); !errors.Is(err, request.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestAccessSuitsVolumesThatWereMadeForIt(t *testing.T) {
	access := func(kind v1alpha1.AccessType, m v1alpha1.AccessMode, f v1alpha1.FilesystemType) request.Access {
		return request.Access{Type: kind, Mode: m, Filesystem: f}
	}
	for name, c := range map[string]struct {
		access     request.Access
		made       request.Access
		refusedFor string
	}{
		"the same":                      {access("mount", "ReadWriteOnce", "ext4"), access("mount", "ReadWriteOnce", "ext4"), ""},
		"filesystem left open":          {access("mount", "ReadWriteOnce", ""), access("mount", "ReadWriteOnce", "xfs"), ""},
		"one pod of one node":           {access("mount", "ReadWriteOncePod", ""), access("mount", "ReadWriteOnce", "ext4"), ""},
		"another filesystem":            {access("mount", "ReadWriteOnce", "xfs"), access("mount", "ReadWriteOnce", "ext4"), "filesystem"},
		"another type":                  {access("block", "ReadWriteOnce", ""), access("mount", "ReadWriteOnce", "ext4"), "access type"},
		"many nodes of a volume of one": {access("block", "ReadWriteMany", ""), access("block", "ReadWriteOnce", ""), "access mode"},
		"one node of a volume of many":  {access("block", "ReadWriteOnce", ""), access("block", "ReadWriteMany", ""), "access mode"},
		"readers of writers":            {access("mount", "ReadOnlyMany", ""), access("mount", "ReadWriteMany", "ext4"), "access mode"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.access.Suits(&v1alpha1.NVMePartition{Spec: v1alpha1.NVMePartitionSpec{
				AccessType: c.made.Type, AccessMode: c.made.Mode, Filesystem: c.made.Filesystem,
			}})
			if (err == nil) != (c.refusedFor == "") || (err != nil && !strings.Contains(err.Error(), c.refusedFor)) {
				t.Errorf("got %v, want a refusal for %q", err, c.refusedFor)
			}
		})
	}
}

// TestParameterKeysAreThoseOfTheContract is design.md §7's list, and those that
// ask for several writers and for a check of the filesystem.
func TestParameterKeysAreThoseOfTheContract(t *testing.T) {
	want := []string{
		"allow-multi-writer", "blocksize", "check-filesystem", "compression", "csi.storage.k8s.io/fstype", "ctrl-loss-tmo", "fast-io-fail-tmo",
		"keep-alive-tmo", "mkfs-options", "nfs-access-mode", "nfs-export-cidrs", "nfs-root-squash", "nr-io-queues", "pool",
		"queue-size", "reconnect-delay", "spdk-core-mask", "target-backend", "transport", "volume-manager",
	}
	if diff := cmp.Diff(want, request.ParameterKeys()); diff != "" {
		t.Error(diff)
	}
}
