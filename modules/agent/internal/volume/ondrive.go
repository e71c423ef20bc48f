package volume

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// byDrive is the cache index of partitions by the serial number of their drive.
const byDrive = "spec.parentDeviceSerialNumber"

// IndexPartitions adds the index that OnDrive needs.
func IndexPartitions(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.NVMePartition{}, byDrive, DriveOfPartition)
}

// DriveOfPartition is the index function of IndexPartitions.
func DriveOfPartition(o client.Object) []string {
	return []string{o.(*v1alpha1.NVMePartition).Spec.ParentDeviceSerialNumber}
}

// OnDrive returns the partitions that are placed on the drive with this serial number.
// It costs what is on that drive, not what is on the node.
func OnDrive(ctx context.Context, cache client.Reader, serial string) ([]v1alpha1.NVMePartition, error) {
	var all v1alpha1.NVMePartitionList
	if err := cache.List(ctx, &all, client.MatchingFields{byDrive: serial}); err != nil {
		return nil, fmt.Errorf("list partitions of drive %q: %w", serial, err)
	}
	return all.Items, nil
}
