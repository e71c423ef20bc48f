package node_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/distort-io/distort/modules/csi/internal/node"
)

// SE1, SE2, SE4: every field of a request has one grammar, and a bad one has no
// effect.
func TestBadRequestsHaveNoEffect(t *testing.T) {
	h := newHost(t)
	s := h.server()
	stage := func(change func(*csi.NodeStageVolumeRequest)) func() error {
		return func() error {
			r := h.stageRequest()
			change(r)
			_, err := s.NodeStageVolume(t.Context(), r)
			return err
		}
	}
	publish := func(change func(*csi.NodePublishVolumeRequest)) func() error {
		return func() error {
			r := h.publishRequest()
			change(r)
			_, err := s.NodePublishVolume(t.Context(), r)
			return err
		}
	}
	tests := map[string]func() error{
		"stage: no volume":           stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "" }),
		"stage: traversal in handle": stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "partition:..:../x:" + uid }),
		"stage: handle of a snapshot": stage(func(r *csi.NodeStageVolumeRequest) {
			r.VolumeId = "snapshot::x:" + uid
		}),
		"stage: no capability":                 stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = nil }),
		"stage: filesystem btrfs":              stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("btrfs") }),
		"stage: mount flag injection":          stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("ext4", "ro,suid") }),
		"stage: no publish context":            stage(func(r *csi.NodeStageVolumeRequest) { r.PublishContext = nil }),
		"stage: context with a secret":         stage(func(r *csi.NodeStageVolumeRequest) { r.PublishContext["dhchap"] = "x" }),
		"stage: comma in NQN":                  stage(func(r *csi.NodeStageVolumeRequest) { r.PublishContext["nqn"] += ",x=y" }),
		"stage: unknown parameter":             stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeContext = map[string]string{"traddr": "10.0.0.9"} }),
		"stage: check of a truth that is none": stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeContext = map[string]string{"check-filesystem": "yes"} }),
		"stage: a group that kubelet applies":  stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability.GetMount().VolumeMountGroup = "1000" }),
		"publish: no target":                   publish(func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "" }),
		"publish: no staging path":             publish(func(r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = "" }),
		"publish: target is staging":           publish(func(r *csi.NodePublishVolumeRequest) { r.TargetPath = r.StagingTargetPath }),
		"publish: no capability":               publish(func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil }),
		"unstage: no volume": func() error {
			_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{StagingTargetPath: "/x"})
			return err
		},
		"unpublish: no volume": func() error {
			_, err := s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{TargetPath: "/x"})
			return err
		},
	}
	for _, path := range []string{"", "/", "relative", "/a/../b", "/a//b", "/a/", "/a/.", "/a\x00b", "/" + strings.Repeat("x", 4096)} {
		name := path[:min(len(path), 12)]
		tests["stage at "+name] = stage(func(r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = path })
		tests["publish at "+name] = publish(func(r *csi.NodePublishVolumeRequest) { r.TargetPath = path })
		tests["unstage at "+name] = func() error {
			_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: volumeID(uid), StagingTargetPath: path})
			return err
		}
		tests["unpublish at "+name] = func() error {
			_, err := s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID(uid), TargetPath: path})
			return err
		}
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			wantCode(t, call(), codes.InvalidArgument)
			if len(h.ops) != 0 {
				t.Errorf("effects %q", h.ops)
			}
		})
	}
}

// SE7: secrets are in no answer, whatever goes wrong.
func TestSecretsAreInNoAnswer(t *testing.T) {
	h := newHost(t)
	const canary = "canary-3f1c"
	for name, change := range map[string]func(*csi.NodeStageVolumeRequest){
		"good":        func(*csi.NodeStageVolumeRequest) {},
		"bad path":    func(r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = "x" },
		"bad context": func(r *csi.NodeStageVolumeRequest) { r.PublishContext = with(r.PublishContext, "nsid", "x") },
	} {
		err := h.stage(change, func(r *csi.NodeStageVolumeRequest) {
			r.Secrets = map[string]string{"key": canary}
			r.VolumeContext = map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": canary}
		})
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, line := range append(h.kernel.Written(), h.ops...) {
		if strings.Contains(line, canary) {
			t.Errorf("secret in %q", line)
		}
	}
}

func TestNodeInfo(t *testing.T) {
	s := newHost(t).server()
	got, err := s.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	want := &csi.NodeGetInfoResponse{
		NodeId: nodeID, MaxVolumesPerNode: 32,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{"topology.storage.distort.io/network-domain": "a"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	c, err := s.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	offered := map[csi.NodeServiceCapability_RPC_Type]bool{}
	for _, one := range c.GetCapabilities() {
		offered[one.GetRpc().GetType()] = true
	}
	wantOffered := map[csi.NodeServiceCapability_RPC_Type]bool{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME: true, csi.NodeServiceCapability_RPC_EXPAND_VOLUME: true,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS: true, csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH: true,
		csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH: true, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: true,
	}
	if diff := cmp.Diff(wantOffered, offered); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := node.New(node.Options{}); err == nil {
		t.Error("made a server without a node ID")
	}
	if _, err := node.New(node.Options{NodeID: "n"}); err == nil {
		t.Error("made a server without an initiator")
	}
}
