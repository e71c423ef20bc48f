package controller_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func capacityIn(domain string, change ...func(*csi.GetCapacityRequest)) *csi.GetCapacityRequest {
	r := &csi.GetCapacityRequest{
		Parameters:         map[string]string{"transport": "tcp"},
		AccessibleTopology: &csi.Topology{Segments: map[string]string{topologyKey: domain}},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// untrue turns a condition of a drive or node to False.
func untrue(conditions *[]metav1.Condition, kind, reason string) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason})
}

// TestGetCapacityCountsWhatPlacementWouldTakePL2 has one drive and one thing
// that is wrong with it, for each reason that placement has.
func TestGetCapacityCountsWhatPlacementWouldTakePL2(t *testing.T) {
	const free = int64(1) << 30
	no, none := false, int64(0)
	type storage = controlplanetest.Storage
	cases := map[string]struct {
		change         func(*storage)
		total, largest int64
	}{
		"well":                      {func(*storage) {}, free, free},
		"fragmented":                {func(s *storage) { s.Device.Status.LargestFreeExtent = 100*mib + 1 }, free, 100 * mib},
		"more contiguous than free": {func(s *storage) { s.Device.Status.LargestFreeExtent = 4 * free }, free, free},
		"full":                      {func(s *storage) { s.Device.Status.FreeCapacity = &none }, 0, 0},
		"not counted yet":           {func(s *storage) { s.Device.Status.FreeCapacity = nil }, 0, 0},
		"of this backend":           {func(s *storage) { s.Device.Status.ActiveBackend = v1alpha1.ActiveBackendKernel }, free, free},
		"of another backend":        {func(s *storage) { s.Device.Status.ActiveBackend = v1alpha1.ActiveBackendSPDK }, 0, 0},
		"served by SPDK alone":      {func(s *storage) { s.Node.Spec.TargetBackends = []v1alpha1.TargetBackend{v1alpha1.BackendSPDK} }, 0, 0},
		"drive cordoned":            {func(s *storage) { s.Device.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "true"} }, 0, 0},
		"drive not cordoned":        {func(s *storage) { s.Device.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "false"} }, free, free},
		"node cordoned":             {func(s *storage) { s.Owner.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "true"} }, 0, 0},
		"node disabled":             {func(s *storage) { s.Owner.Spec.Enabled = &no }, 0, 0},
		"node unknown":              {func(s *storage) { s.Node = nil }, 0, 0},
		"node not ready": {func(s *storage) {
			untrue(&s.Node.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonHeartbeatExpired)
		}, 0, 0},
		"inventory incomplete": {func(s *storage) {
			untrue(&s.Node.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady, v1alpha1.ReasonScanDegraded)
		}, 0, 0},
		"drive gone": {func(s *storage) {
			untrue(&s.Device.Status.Conditions, v1alpha1.ConditionHardwareAvailable, v1alpha1.ReasonNotFound)
		}, 0, 0},
		"somebody else's data": {func(s *storage) {
			untrue(&s.Device.Status.Conditions, v1alpha1.ConditionMediaUsable, v1alpha1.ReasonForeignSignature)
		}, 0, 0},
		"without a portal":       {func(s *storage) { s.Node.Spec.Portals[0].Transport = v1alpha1.TransportRDMA }, 0, 0},
		"not claimed":            {func(s *storage) { s.Claim = nil }, 0, 0},
		"claim not bound":        {func(s *storage) { s.Claim.Status.Active = false }, 0, 0},
		"claim of another drive": {func(s *storage) { s.Claim.Status.MatchedDevice = "other" }, 0, 0},
		"claim of an earlier life": {func(s *storage) {
			s.Device.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: "default", Name: s.Claim.Name, UID: otherUID}
		}, 0, 0},
	}
	domains := map[string]string{}
	for name, c := range cases {
		domain := "room-" + string(rune('a'+len(domains)))
		domains[name] = domain
		s := controlplanetest.NewStorage(domain, domain, "S-"+domain, free)
		c.change(s)
		server.Provide(t, s)
	}
	// A drive that was moved is no duplicate of where it is now; one that is in
	// two places is.
	for _, domain := range []string{"room-dup-1", "room-dup-2"} {
		server.Provide(t, controlplanetest.NewStorage(domain, domain, "S-DUP", free))
	}
	moved := controlplanetest.NewStorage("room-moved-from", "room-moved-from", "S-MOVED", free)
	untrue(&moved.Device.Status.Conditions, v1alpha1.ConditionHardwareAvailable, v1alpha1.ReasonNotFound)
	server.Provide(t, moved)
	server.Provide(t, controlplanetest.NewStorage("room-moved-to", "room-moved-to", "S-MOVED", free))

	h := newHarness(t, controlplanetest.Behaviour{})
	want := func(name, domain string, total, largest int64) {
		t.Helper()
		r, err := h.GetCapacity(h.within(enough), capacityIn(domain))
		h.must(err)
		if r.GetAvailableCapacity() != total || r.GetMaximumVolumeSize().GetValue() != largest || r.GetMaximumVolumeSize() == nil {
			t.Errorf("%s: %d bytes and at most %v, want %d and %d", name, r.GetAvailableCapacity(), r.GetMaximumVolumeSize(), total, largest)
		}
	}
	for name, c := range cases {
		want(name, domains[name], c.total, c.largest)
	}
	want("a duplicate", "room-dup-1", 0, 0)
	want("its duplicate", "room-dup-2", 0, 0)
	want("where it was", "room-moved-from", 0, 0)
	want("where it is", "room-moved-to", free, free)
	want("nowhere", "room-nowhere", 0, 0)
	h.wantRequests()
}

func TestGetCapacityAddsDrivesAndNamesTheLargestVolume(t *testing.T) {
	for i, free := range []int64{100 * mib, 300*mib + 1, 200 * mib} {
		name := "sum-" + string(rune('a'+i))
		server.Provide(t, controlplanetest.NewStorage(name, "rack-sum", "SUM-"+name, free))
	}
	h := newHarness(t, controlplanetest.Behaviour{})
	r, err := h.GetCapacity(h.within(enough), capacityIn("rack-sum"))
	h.must(err)
	if r.GetAvailableCapacity() != 600*mib || r.GetMaximumVolumeSize().GetValue() != 300*mib || r.GetMinimumVolumeSize().GetValue() != 4*mib {
		t.Errorf("got %v", r)
	}
	all, err := h.GetCapacity(h.within(enough), &csi.GetCapacityRequest{Parameters: map[string]string{"transport": "tcp"}})
	h.must(err)
	if all.GetAvailableCapacity() < 600*mib {
		t.Errorf("%d bytes everywhere, want at least those of one domain", all.GetAvailableCapacity())
	}
}

// TestGetCapacityKeepsWhatIsPlacedAndNotCarved: the agent may cut it out of the
// largest extent.
func TestGetCapacityKeepsWhatIsPlacedAndNotCarved(t *testing.T) {
	const node = "room-uncarved"
	storage := controlplanetest.NewStorage(node, node, controlplanetest.SerialOn(node), 1<<30)
	storage.Device.Status.LargestFreeExtent = 512 * mib
	server.Provide(t, storage)
	h := newHarness(t, controlplanetest.Behaviour{StorageNode: node, HoldExport: true})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-1"))
	wantError(t, err, codes.DeadlineExceeded)
	h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool { return p.Spec.NodeName != "" })
	for _, want := range []int64{512*mib - small, 512 * mib} {
		r, err := h.GetCapacity(h.within(enough), capacityIn(node))
		h.must(err)
		if got := r.GetMaximumVolumeSize().GetValue(); got != want {
			t.Errorf("at most %d bytes, want %d", got, want)
		}
		h.stub.Become(controlplanetest.Behaviour{StorageNode: node})
		h.created("pvc-1")
	}
}

// TestGetCapacityJudgesAClassAsCreateVolumeDoes, but for what
// external-provisioner sends along.
func TestGetCapacityJudgesAClassAsCreateVolumeDoes(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	parameter := func(key, value string) func(*csi.GetCapacityRequest) {
		return func(r *csi.GetCapacityRequest) { r.Parameters[key] = value }
	}
	capability := func(c *csi.VolumeCapability) func(*csi.GetCapacityRequest) {
		return func(r *csi.GetCapacityRequest) { r.VolumeCapabilities = []*csi.VolumeCapability{c} }
	}
	for name, c := range map[string]struct {
		change func(*csi.GetCapacityRequest)
		says   string
	}{
		"the sidecar's own":     {parameter("csi.storage.k8s.io/provisioner-secret-name", "x"), ""},
		"the filesystem":        {parameter("csi.storage.k8s.io/fstype", "xfs"), ""},
		"an unknown capability": {capability(&csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{}}), ""},
		"a capability":          {capability(mountCapability()), ""},
		"an unknown parameter":  {parameter("transprot", "tcp"), `did you mean "transport"`},
		"an unknown backend":    {parameter("target-backend", "nvmf"), "nvmf"},
		"shared without asking": {capability(sharedBlockCapability()), "allow-multi-writer"},
		"another segment": {func(r *csi.GetCapacityRequest) {
			r.AccessibleTopology = &csi.Topology{Segments: map[string]string{"zone": "a"}}
		}, `"zone"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.GetCapacity(h.within(enough), capacityIn("rack-none", c.change))
			if c.says == "" {
				h.must(err)
				return
			}
			wantError(t, err, codes.InvalidArgument, c.says)
		})
	}
}
