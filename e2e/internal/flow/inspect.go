package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/distort-io/distort/e2e/internal/guestexec"
)

type runtimeObject = runtime.Object

// partitionTables returns the partitions in the tables of a guest's NVMe
// drives, as sfdisk reads them from the medium.
func partitionTables(ctx context.Context, guest *guestexec.Client) ([]string, error) {
	out, err := guest.Output(ctx, "find", "/sys/block", "-name", "nvme*n*")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range strings.Fields(out) {
		device := "/dev/" + path[strings.LastIndex(path, "/")+1:]
		text, err := guest.Output(ctx, "sfdisk", "--json", "--", device)
		if err != nil {
			// sfdisk fails where there is no table, which is as good as an
			// empty one; a missing drive would have failed above.
			continue
		}
		names, err := parsePartitionTable(text)
		if err != nil {
			return nil, fmt.Errorf("partition table of %s: %w", device, err)
		}
		for _, name := range names {
			found = append(found, "partition "+name+" in the table of "+device)
		}
	}
	return found, nil
}

// parsePartitionTable returns the partitions in sfdisk's JSON.
func parsePartitionTable(text string) ([]string, error) {
	var dump struct {
		PartitionTable struct {
			Partitions []struct {
				Node string `json:"node"`
				UUID string `json:"uuid"`
			} `json:"partitions"`
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal([]byte(text), &dump); err != nil {
		return nil, err
	}
	var names []string
	for _, partition := range dump.PartitionTable.Partitions {
		names = append(names, partition.Node+" "+partition.UUID)
	}
	return names, nil
}

// fabricControllers returns the NVMe controllers of a guest that are not local
// drives, with transport and subsystem.
func fabricControllers(ctx context.Context, guest *guestexec.Client) ([]string, error) {
	out, err := guest.Output(ctx, "find", "/sys/class/nvme", "-mindepth", "1", "-maxdepth", "1")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range strings.Fields(out) {
		transport, err := guest.Output(ctx, "cat", path+"/transport")
		if err != nil {
			// It was removed between the two looks.
			continue
		}
		if transport = strings.TrimSpace(transport); transport == "pcie" {
			continue
		}
		nqn, err := guest.Output(ctx, "cat", path+"/subsysnqn")
		if err != nil {
			continue
		}
		found = append(found, fmt.Sprintf("%s (%s, %s)", path, transport, strings.TrimSpace(nqn)))
	}
	return found, nil
}

// volumeMounts returns the mounts of CSI volumes in the text of /proc/mounts.
func volumeMounts(mounts string) []string {
	var found []string
	for _, line := range strings.Split(mounts, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if strings.HasPrefix(fields[0], "/dev/nvme") || strings.Contains(fields[1], "kubernetes.io~csi") || strings.Contains(fields[1], "/kubernetes.io/csi/") {
			found = append(found, fields[0]+" at "+fields[1])
		}
	}
	return found
}
