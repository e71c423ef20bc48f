package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

func TestParseExpand(t *testing.T) {
	type expand = csi.ControllerExpandVolumeRequest
	asked := func(required, limit int64) func(*expand) {
		return func(r *expand) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit} }
	}
	for name, c := range map[string]struct {
		change func(*expand)
		want   request.Expand
		err    error
		says   string
	}{
		"rounded up":  {asked(5<<20, 9<<20), request.Expand{Volume: ours, Size: 8 << 20, Limit: 9 << 20}, nil, ""},
		"limit alone": {asked(0, 9<<20), request.Expand{Volume: ours, Limit: 9 << 20}, nil, ""},
		"with its use": {func(r *expand) { r.VolumeCapability = mount(writer, "xfs") }, request.Expand{
			Volume: ours, Size: 8 << 20, Access: &request.Access{Type: v1alpha1.AccessMount, Mode: v1alpha1.ReadWriteOnce, Filesystem: v1alpha1.XFS},
		}, nil, ""},
		"no range":              {func(r *expand) { r.CapacityRange = nil }, request.Expand{}, request.ErrInvalid, "capacity_range is missing"},
		"an empty range":        {asked(0, 0), request.Expand{}, request.ErrInvalid, "capacity_range is missing"},
		"negative":              {asked(-1, 0), request.Expand{}, request.ErrInvalid, "required_bytes -1"},
		"contradicting":         {asked(9<<20, 8<<20), request.Expand{}, request.ErrInvalid, "above limit_bytes"},
		"nothing between":       {asked(5<<20, 6<<20), request.Expand{}, request.ErrOutOfRange, "no multiple"},
		"too much":              {asked(1<<63-1, 0), request.Expand{}, request.ErrOutOfRange, "64 bits"},
		"a use for nobody":      {func(r *expand) { r.VolumeCapability = mount(writers, "") }, request.Expand{}, request.ErrInvalid, "one writer"},
		"no volume":             {func(r *expand) { r.VolumeId = "" }, request.Expand{}, request.ErrInvalid, "volume_id is missing"},
		"no volume of ours":     {func(r *expand) { r.VolumeId = "x" }, request.Expand{}, request.ErrNoVolume, ""},
		"nonsense of no volume": {func(r *expand) { r.VolumeId, r.CapacityRange = "x", nil }, request.Expand{}, request.ErrInvalid, "capacity_range"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &expand{VolumeId: ours.String(), CapacityRange: &csi.CapacityRange{RequiredBytes: 8 << 20}}
			c.change(r)
			got, err := request.ParseExpand(r, namespace)
			if c.err != nil {
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %v that says %q", err, c.err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzParseExpand is EX8's property: what is accepted is a multiple of 4 MiB,
// holds what is required and stays within the limit.
func FuzzParseExpand(f *testing.F) {
	for _, n := range []int64{0, 1, 4<<20 - 1, 4 << 20, 4<<20 + 1, 1<<63 - 1} {
		f.Add(n, n)
		f.Add(n, int64(0))
		f.Add(n, n+4<<20)
	}
	f.Fuzz(func(t *testing.T, required, limit int64) {
		got, err := request.ParseExpand(&csi.ControllerExpandVolumeRequest{
			VolumeId: ours.String(), CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit},
		}, namespace)
		switch {
		case err != nil && !errors.Is(err, request.ErrInvalid) && !errors.Is(err, request.ErrOutOfRange):
			t.Errorf("error of no kind: %v", err)
		case err == nil && (got.Size%(4<<20) != 0 || got.Size < required || (limit > 0 && got.Size > limit)):
			t.Errorf("%d bytes for %d to %d", got.Size, required, limit)
		}
	})
}

func FuzzParsePage(f *testing.F) {
	f.Add(int32(0), "1700000000/pvc-1")
	f.Add(int32(-1), "1/../x")
	f.Fuzz(func(t *testing.T, most int32, token string) {
		page, err := request.ParsePage(most, token)
		switch {
		case err != nil && !errors.Is(err, request.ErrInvalid) && !errors.Is(err, request.ErrBadToken):
			t.Errorf("error of no kind: %v", err)
		case err == nil && token != "" && page.After.String() != token:
			t.Errorf("token %q became %v", token, page.After)
		}
	})
}
