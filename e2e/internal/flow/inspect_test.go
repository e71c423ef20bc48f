package flow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParsePartitionTable(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty table": {`{"partitiontable": {"label": "gpt", "device": "/dev/nvme0n1", "unit": "sectors"}}`, nil},
		"one partition": {
			`{"partitiontable": {"partitions": [{"node": "/dev/nvme0n1p1", "start": 8192, "uuid": "AB"}]}}`,
			[]string{"/dev/nvme0n1p1 AB"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parsePartitionTable(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := parsePartitionTable("sfdisk: failed"); err == nil {
		t.Error("text that is not JSON is accepted")
	}
}

func TestVolumeMounts(t *testing.T) {
	mounts := `/dev/vda / ext4 rw 0 0
/dev/nvme1n1 /var/lib/kubelet/plugins/kubernetes.io/csi/storage.distort.io/abc/globalmount ext4 rw 0 0
/dev/nvme1n1 /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-1/mount ext4 rw 0 0
tmpfs /var/lib/kubelet/pods/1/volumes/kubernetes.io~projected/token tmpfs rw 0 0
devtmpfs /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-2 devtmpfs rw 0 0
`
	if got := volumeMounts(mounts); len(got) != 3 {
		t.Errorf("found %q, want three mounts", got)
	}
}

func TestEventually(t *testing.T) {
	failure := errors.New("broken")
	calls := 0
	tests := map[string]struct {
		check func(context.Context) (string, error)
		want  error
		text  string
	}{
		"succeeds later": {func(context.Context) (string, error) {
			if calls++; calls < 3 {
				return "not yet", nil
			}
			return "", nil
		}, nil, ""},
		"times out with what was missing": {func(context.Context) (string, error) { return "the moon", nil }, ErrTimeout, "the moon"},
		"ends at an error":                {func(context.Context) (string, error) { return "", failure }, failure, "wish"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Eventually(t.Context(), "wish", time.Second, test.check)
			if !errors.Is(err, test.want) || (err != nil && !strings.Contains(err.Error(), test.text)) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}
