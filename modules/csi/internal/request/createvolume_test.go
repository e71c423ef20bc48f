package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

var defaults = request.Defaults{Backend: v1alpha1.BackendKernel, TopologyKey: v1alpha1.TopologyKey}

type (
	create     = csi.CreateVolumeRequest
	capability = csi.VolumeCapability
	mode       = csi.VolumeCapability_AccessMode_Mode
)

const (
	writer       = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	multiWriter  = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	singleWriter = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	readers      = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	writers      = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
)

func mount(m mode, filesystem string, flags ...string) *capability {
	return &capability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: filesystem, MountFlags: flags}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
	}
}

func block(m mode) *capability {
	return &capability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: m},
	}
}

func valid(change func(*create)) *create {
	r := &create{Name: "pvc-1", VolumeCapabilities: []*capability{mount(writer, "")}, Parameters: map[string]string{}}
	if change != nil {
		change(r)
	}
	return r
}

func ptr(n int) *int { return &n }

func TestParseCreateVolumeFillsInDefaults(t *testing.T) {
	got, err := request.ParseCreateVolume(valid(nil), defaults)
	if err != nil {
		t.Fatal(err)
	}
	want := request.CreateVolume{
		Name: "pvc-1", ObjectName: "pvc-1", Size: 1 << 30, Kind: v1alpha1.KindNVMePartition,
		Backend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportRDMA,
		Access: request.Access{Type: v1alpha1.AccessMount, Mode: v1alpha1.ReadWriteOnce, Filesystem: v1alpha1.Ext4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseCreateVolumeReadsEverything(t *testing.T) {
	segments := func(d string) *csi.Topology {
		return &csi.Topology{Segments: map[string]string{v1alpha1.TopologyKey: d}}
	}
	got, err := request.ParseCreateVolume(&create{
		Name:               strings.Repeat("n", 128),
		CapacityRange:      &csi.CapacityRange{RequiredBytes: 5 << 20, LimitBytes: 9 << 20},
		VolumeCapabilities: []*capability{mount(singleWriter, "xfs", "noatime"), mount(multiWriter, "")},
		Parameters: map[string]string{
			"target-backend": "kernel", "volume-manager": "partition", "transport": "tcp", "mkfs-options": "-m reflink=0",
			"csi.storage.k8s.io/fstype": "xfs", "queue-size": "64", "allow-multi-writer": "false",
			"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "default", "csi.storage.k8s.io/pv/name": "pvc-1",
		},
		AccessibilityRequirements: &csi.TopologyRequirement{
			Requisite: []*csi.Topology{segments("a"), segments("b"), segments("a")}, Preferred: []*csi.Topology{segments("b")},
		},
	}, defaults)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.ObjectName) > 40 {
		t.Errorf("object name %q", got.ObjectName)
	}
	got.Name, got.ObjectName = "", ""
	want := request.CreateVolume{
		Size: 8 << 20, Kind: v1alpha1.KindNVMePartition, Backend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportTCP,
		// The wider of both modes.
		Access:   request.Access{Type: v1alpha1.AccessMount, Mode: v1alpha1.ReadWriteOnce, Filesystem: v1alpha1.XFS},
		Topology: &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"a", "b"}, Preferred: []v1alpha1.DomainName{"b"}},
		Context:  volumecontext.Context{Connection: initiator.Params{QueueSize: ptr(64)}, MkfsOptions: "-m reflink=0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseCreateVolumeAcceptsAccessModes(t *testing.T) {
	for name, c := range map[string]struct {
		capability *capability
		want       request.Access
	}{
		"one pod":    {mount(singleWriter, "ext4"), request.Access{Type: v1alpha1.AccessMount, Mode: v1alpha1.ReadWriteOncePod, Filesystem: v1alpha1.Ext4}},
		"one node":   {mount(multiWriter, "ext4"), request.Access{Type: v1alpha1.AccessMount, Mode: v1alpha1.ReadWriteOnce, Filesystem: v1alpha1.Ext4}},
		"raw":        {block(writer), request.Access{Type: v1alpha1.AccessBlock, Mode: v1alpha1.ReadWriteOnce}},
		"raw shared": {block(writers), request.Access{Type: v1alpha1.AccessBlock, Mode: v1alpha1.ReadWriteMany}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := request.ParseCreateVolume(valid(func(r *create) {
				r.VolumeCapabilities = []*capability{c.capability}
				r.Parameters["allow-multi-writer"] = "true"
			}), defaults)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Access); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseCreateVolumeRefusesAndNamesTheRule(t *testing.T) {
	parameter := func(key, value string) func(*create) {
		return func(r *create) { r.Parameters[key] = value }
	}
	capabilities := func(c ...*capability) func(*create) {
		return func(r *create) { r.VolumeCapabilities = c }
	}
	topology := func(requisite, preferred map[string]string) func(*create) {
		return func(r *create) {
			r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: requisite}}}
			if preferred != nil {
				r.AccessibilityRequirements.Preferred = []*csi.Topology{{Segments: preferred}}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*create)
		says   []string
	}{
		"no name":                  {func(r *create) { r.Name = "" }, []string{"name is missing"}},
		"a long name":              {func(r *create) { r.Name = strings.Repeat("n", 129) }, []string{"at most 128 bytes"}},
		"control bytes in a name":  {func(r *create) { r.Name = "a\x00b" }, []string{"control"}},
		"a name that is not UTF-8": {func(r *create) { r.Name = "\xff" }, []string{"UTF-8"}},

		"a typo":                     {parameter("transprot", "tcp"), []string{`"transprot"`, `did you mean "transport"`}},
		"a typo in case and hyphens": {parameter("TargetBackend", "kernel"), []string{`did you mean "target-backend"`}},
		"a key like no other":        {parameter("qwertyuiop", "x"), []string{"want one of", "ctrl-loss-tmo", "target-backend"}},
		"a reserved key":             {parameter("csi.storage.k8s.io/provisioner-secret-name", "x"), []string{"unknown parameter"}},
		"an unknown backend":         {parameter("target-backend", "iscsi"), []string{"target-backend", `"iscsi"`, `want "kernel", "spdk" or "zfs"`}},
		"cores of a target": {func(r *create) {
			r.Parameters["target-backend"], r.Parameters["spdk-core-mask"] = "spdk", "0x3"
		}, []string{"spdk-core-mask", `"0x3"`, "one target for each node"}},
		"an unknown transport":        {parameter("transport", "fc"), []string{"transport", `"fc"`, `want "rdma" or "tcp"`}},
		"nfs without its backend":     {parameter("transport", "nfs"), []string{`"nfs"`, `needs target-backend "zfs"`}},
		"an unknown volume manager":   {parameter("volume-manager", "lvm"), []string{"volume-manager", `"lvm"`, `want "partition"`}},
		"a parameter of zfs":          {parameter("compression", "lz4"), []string{"compression", `"lz4"`, `target-backend "zfs"`}},
		"a parameter of spdk":         {parameter("spdk-core-mask", "0x3"), []string{"spdk-core-mask", `target-backend "spdk"`}},
		"a connection out of range":   {parameter("queue-size", "8"), []string{"queue-size 8", "16 to 1024"}},
		"a connection with a comma":   {parameter("ctrl-loss-tmo", "1,hostnqn=x"), []string{"ctrl-loss-tmo", "whole number"}},
		"mkfs with a device":          {parameter("mkfs-options", "-m 0 /dev/sda"), []string{"mkfs-options"}},
		"mkfs for another filesystem": {parameter("mkfs-options", "-d su=64k"), []string{"mkfs-options", "ext4"}},
		"a check of another tongue":   {parameter("check-filesystem", "ja"), []string{"check-filesystem", `"true" or "false"`}},
		"an unknown filesystem":       {parameter("csi.storage.k8s.io/fstype", "btrfs"), []string{`"btrfs"`, `want "ext4" or "xfs"`}},
		"a boolean of another tongue": {parameter("allow-multi-writer", "yes"), []string{`"yes"`, `"true" or "false"`}},

		"no capability":           {capabilities(), []string{"volume_capabilities are missing"}},
		"an empty capability":     {capabilities(&capability{}), []string{"access mode UNKNOWN"}},
		"no access type":          {capabilities(&capability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer}}), []string{"neither"}},
		"a filesystem for many":   {capabilities(mount(writers, "")), []string{"a filesystem has one writer"}},
		"shared without asking":   {capabilities(block(writers)), []string{"allow-multi-writer"}},
		"an empty volume to read": {capabilities(mount(readers, "")), []string{"no node could ever write"}},
		"a drive's volume to read": {func(r *create) {
			r.VolumeCapabilities = []*capability{mount(readers, "")}
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "x"}}}
		}, []string{"neither restored nor cloned"}},
		"a raw volume to read":       {capabilities(block(readers)), []string{"raw device"}},
		"both access types":          {capabilities(mount(writer, ""), block(writer)), []string{"mount and block"}},
		"two filesystems":            {capabilities(mount(writer, "ext4"), mount(writer, "xfs")), []string{"ext4 and xfs"}},
		"one writer and many":        {capabilities(block(writer), block(writers)), []string{"ReadWriteOnce and ReadWriteMany"}},
		"a foreign mount option SE4": {capabilities(mount(writer, "", "noatime,user_id=0")), []string{"mount_flags", "noatime,user_id=0"}},
		"an option of another":       {capabilities(mount(writer, "ext4", "inode64")), []string{"inode64", "ext4"}},
		"capability and parameter": {func(r *create) {
			r.VolumeCapabilities = []*capability{mount(writer, "ext4")}
			r.Parameters["csi.storage.k8s.io/fstype"] = "xfs"
		}, []string{`"xfs"`, `"ext4"`}},
		"mkfs for a raw volume": {func(r *create) {
			r.VolumeCapabilities = []*capability{block(writer)}
			r.Parameters["mkfs-options"] = "-m 0"
		}, []string{"raw block volume has no filesystem"}},
		"a check of a raw volume": {func(r *create) {
			r.VolumeCapabilities = []*capability{block(writer)}
			r.Parameters["check-filesystem"] = "true"
		}, []string{"check-filesystem", "raw block volume has no filesystem"}},

		"a negative size":      {func(r *create) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: -1} }, []string{"required_bytes -1"}},
		"a contradicting size": {func(r *create) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: 9 << 20, LimitBytes: 8 << 20} }, []string{"above limit_bytes"}},

		"another segment":              {topology(map[string]string{"zone": "a"}, nil), []string{`"zone"`}},
		"no segment":                   {topology(nil, nil), []string{"lacks segment"}},
		"a domain that is no label":    {topology(map[string]string{v1alpha1.TopologyKey: "a b"}, nil), []string{`"a b"`, "label value"}},
		"a preference outside the set": {topology(map[string]string{v1alpha1.TopologyKey: "a"}, map[string]string{v1alpha1.TopologyKey: "b"}), []string{"not among the requisite"}},

		"a source": {func(r *create) {
			r.VolumeContentSource = &csi.VolumeContentSource{}
		}, []string{"volume_content_source", "neither restored nor cloned"}},
		"mutable parameters": {func(r *create) { r.MutableParameters = map[string]string{"iops": "canary"} }, []string{`mutable_parameters "iops"`, "no parameter that can change"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := request.ParseCreateVolume(valid(c.change), defaults)
			if !errors.Is(err, request.ErrInvalid) {
				t.Fatalf("got %v, want ErrInvalid", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestASizeThatNoVolumeCanHaveIsOutOfRange(t *testing.T) {
	for name, r := range map[string]*csi.CapacityRange{
		"nothing between":   {RequiredBytes: 5 << 20, LimitBytes: 6 << 20},
		"a tiny limit":      {LimitBytes: 1},
		"more than 63 bits": {RequiredBytes: 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := request.ParseCreateVolume(valid(func(c *create) { c.CapacityRange = r }), defaults)
			if !errors.Is(err, request.ErrOutOfRange) {
				t.Errorf("got %v, want ErrOutOfRange", err)
			}
		})
	}
}

// TestAnUnknownKeyIsNamedAndItsValueIsNot: a misspelt key may hold a secret
// (SE7).
func TestAnUnknownKeyIsNamedAndItsValueIsNot(t *testing.T) {
	_, err := request.ParseCreateVolume(valid(func(r *create) { r.Parameters["passwd"] = "canary" }), defaults)
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "passwd") {
		t.Errorf("got %v", err)
	}
}

func TestFingerprintTellsRequestsApartButForTheirTopology(t *testing.T) {
	fingerprint := func(change func(*create)) string {
		t.Helper()
		c, err := request.ParseCreateVolume(valid(change), defaults)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	base := fingerprint(nil)
	for name, change := range map[string]func(*create){
		"a retry":            nil,
		"its default named":  func(r *create) { r.Parameters["target-backend"] = "kernel" },
		"its size named":     func(r *create) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 30} },
		"another claim name": func(r *create) { r.Parameters["csi.storage.k8s.io/pvc/name"] = "x" },
		"another topology": func(r *create) {
			r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{v1alpha1.TopologyKey: "a"}}}}
		},
	} {
		if got := fingerprint(change); got != base {
			t.Errorf("%s: differs", name)
		}
	}
	for name, change := range map[string]func(*create){
		"size":               func(r *create) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: 2 << 30} },
		"transport":          func(r *create) { r.Parameters["transport"] = "tcp" },
		"filesystem":         func(r *create) { r.Parameters["csi.storage.k8s.io/fstype"] = "xfs" },
		"access mode":        func(r *create) { r.VolumeCapabilities = []*capability{mount(singleWriter, "")} },
		"access type (CV11)": func(r *create) { r.VolumeCapabilities = []*capability{block(writer)} },
		"connection":         func(r *create) { r.Parameters["queue-size"] = "64" },
		"mkfs":               func(r *create) { r.Parameters["mkfs-options"] = "-m 0" },
	} {
		if fingerprint(change) == base {
			t.Errorf("%s: is the same", name)
		}
	}
}

func TestObjectIsWhatWasAskedFor(t *testing.T) {
	c, err := request.ParseCreateVolume(valid(func(r *create) { r.Parameters["transport"] = "tcp" }), defaults)
	if err != nil {
		t.Fatal(err)
	}
	object, err := c.Object()
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := c.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}, Spec: v1alpha1.NVMePartitionSpec{
		Size: 1 << 30, TargetBackend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportTCP,
		AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessMount, Filesystem: v1alpha1.Ext4, RequestFingerprint: fingerprint,
	}}
	if diff := cmp.Diff(v1alpha1.Slice(want), object); diff != "" {
		t.Error(diff)
	}
}

// FuzzParseCreateVolume looks for panics, for errors of no kind, and for
// accepted requests whose object the API server would refuse.
func FuzzParseCreateVolume(f *testing.F) {
	f.Add("pvc-1", "transport", "tcp", "ext4", "noatime", "rack-1", int64(1), int64(0))
	f.Add("pvc-1", "mkfs-options", "-m 0", "xfs", "", "", int64(0), int64(1<<40))
	f.Add("\x00", "ctrl-loss-tmo", "-1,x", "", "ro", "a b", int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, name, key, value, filesystem, flag, domain string, required, limit int64) {
		r := &create{
			Name: name, Parameters: map[string]string{key: value},
			CapacityRange:      &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit},
			VolumeCapabilities: []*capability{mount(writer, filesystem, flag)},
			AccessibilityRequirements: &csi.TopologyRequirement{
				Requisite: []*csi.Topology{{Segments: map[string]string{v1alpha1.TopologyKey: domain}}},
			},
		}
		c, err := request.ParseCreateVolume(r, defaults)
		if err != nil {
			if !errors.Is(err, request.ErrInvalid) && !errors.Is(err, request.ErrOutOfRange) {
				t.Errorf("error of no kind: %v", err)
			}
			return
		}
		if c.Size < 4<<20 || c.Size%(4<<20) != 0 || c.Size < required || (limit > 0 && c.Size > limit) {
			t.Errorf("size %d for %d to %d", c.Size, required, limit)
		}
		for k, v := range c.Context.Encode() {
			if strings.ContainsAny(v, "\x00\n/") {
				t.Errorf("context %s=%q", k, v)
			}
		}
	})
}
