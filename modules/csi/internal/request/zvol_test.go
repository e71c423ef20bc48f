package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

func zvol(change ...func(*create)) *create {
	return valid(func(r *create) {
		r.Parameters["target-backend"], r.Parameters["transport"] = "zfs", "tcp"
		for _, c := range change {
			c(r)
		}
	})
}

func TestAVolumeOfAPoolIsWhatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*create)
		want   func(*v1alpha1.VolumeSpec)
	}{
		"a filesystem": {func(*create) {}, func(s *v1alpha1.VolumeSpec) { s.FSType = v1alpha1.Ext4 }},
		"everything": {
			func(r *create) {
				r.Parameters["transport"], r.Parameters["blocksize"], r.Parameters["compression"] = "rdma", "8192", "zstd-3"
				r.Parameters["csi.storage.k8s.io/fstype"] = "xfs"
			},
			func(s *v1alpha1.VolumeSpec) {
				s.Transport, s.VolBlockSize, s.Compression, s.FSType = v1alpha1.ProtocolNVMeRDMA, 8192, "zstd-3", v1alpha1.XFS
			},
		},
		"a raw device for many": {
			func(r *create) {
				r.VolumeCapabilities = []*capability{block(writers)}
				r.Parameters["allow-multi-writer"] = "true"
			},
			func(s *v1alpha1.VolumeSpec) { s.AccessMode = v1alpha1.ReadWriteMany },
		},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := request.ParseCreateVolume(zvol(c.change), defaults)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.Object()
			if err != nil {
				t.Fatal(err)
			}
			want := &v1alpha1.Volume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}, Spec: v1alpha1.VolumeSpec{
				Type: v1alpha1.VolumeBlock, Capacity: 1 << 30, Transport: v1alpha1.ProtocolNVMeTCP, AccessMode: v1alpha1.ReadWriteOnce,
				Provenance: v1alpha1.ProvenanceDynamic, DeletionPolicy: v1alpha1.DeletionDelete, RequestFingerprint: got.GetRequestFingerprint(),
			}}
			c.want(&want.Spec)
			if diff := cmp.Diff(v1alpha1.Slice(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFingerprintOfAVolumeOfAPoolCoversHowItIsMade(t *testing.T) {
	fingerprint := func(change ...func(*create)) string {
		t.Helper()
		c, err := request.ParseCreateVolume(zvol(change...), defaults)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	base := fingerprint()
	if fingerprint() != base {
		t.Error("a retry has another fingerprint")
	}
	for name, change := range map[string]func(*create){
		"block size":  func(r *create) { r.Parameters["blocksize"] = "4096" },
		"compression": func(r *create) { r.Parameters["compression"] = "off" },
		"filesystem":  func(r *create) { r.Parameters["csi.storage.k8s.io/fstype"] = "xfs" },
	} {
		if fingerprint(change) == base {
			t.Errorf("%s: is the same", name)
		}
	}
}

func TestWhatNoVolumeOfAPoolCanBeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		says       []string
	}{
		"a dataset":                    {"transport", "nfs", []string{`transport "nfs"`, "no datasets"}},
		"options of a dataset":         {"nfs-export-cidrs", "10.0.0.0/8", []string{"nfs-export-cidrs", `needs transport "nfs"`}},
		"a certain pool":               {"pool", "tank", []string{`pool "tank"`, "any ready pool"}},
		"a volume manager":             {"volume-manager", "partition", []string{"volume-manager", `target-backend "kernel"`}},
		"SPDK's parameter":             {"spdk-core-mask", "0x3", []string{"spdk-core-mask", `target-backend "spdk"`}},
		"a block size with a unit":     {"blocksize", "16k", []string{`blocksize "16k"`, "in bytes"}},
		"a block size between two":     {"blocksize", "5000", []string{"power of two"}},
		"too small a block":            {"blocksize", "256", []string{"from 512 to 131072"}},
		"too large a block":            {"blocksize", "262144", []string{"from 512 to 131072"}},
		"a compression that is none":   {"compression", "best", []string{`compression "best"`}},
		"an option in the compression": {"compression", "lz4 -o x=y", []string{"compression"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := request.ParseCreateVolume(zvol(func(r *create) { r.Parameters[c.key] = c.value }), defaults)
			if !errors.Is(err, request.ErrInvalid) {
				t.Fatalf("got %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}
