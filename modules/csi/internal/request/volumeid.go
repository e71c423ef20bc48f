package request

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/distort-io/distort/modules/api/handle"
)

// handleLike matches what another version of this driver may have returned: a
// kind that this one does not know, and the rest of a handle.
var handleLike = regexp.MustCompile(`^[a-z][a-z0-9-]*:[-a-z0-9]*:[-a-z0-9.]+:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ParseVolumeID reads the handle of an NVMePartition in the driver's namespace, or
// of a Volume. The error is ErrNoVolume for text that no version of the driver
// returned; ErrInvalid for a handle that exists but is not served here, since
// nothing is known about such a volume (known faults SE1, SE8).
func ParseVolumeID(id, namespace string) (handle.Handle, error) {
	if id == "" {
		return handle.Handle{}, invalidf("volume_id is missing")
	}
	h, err := handle.Parse(id)
	switch {
	case errors.Is(err, handle.ErrMalformed) && !handleLike.MatchString(id):
		return handle.Handle{}, fmt.Errorf("%w: volume_id %s: %w", ErrNoVolume, shown(id), handle.ErrMalformed)
	case err != nil:
		return handle.Handle{}, invalidf("volume_id: %w", err)
	case h.Kind != handle.NVMePartition && h.Kind != handle.Volume:
		return handle.Handle{}, invalidf("volume_id %q: kind %s is no volume", id, h.Kind)
	case h.Kind == handle.NVMePartition && h.Namespace != namespace:
		return handle.Handle{}, invalidf("volume_id %q: this driver serves namespace %q, not %q", id, namespace, h.Namespace)
	}
	return h, nil
}

// parseNodeID reads a CSI node ID, which is the name of a Kubernetes node.
func parseNodeID(id string) (string, error) {
	if id == "" {
		return "", invalidf("node_id is missing")
	}
	if problems := validation.IsDNS1123Subdomain(id); len(problems) > 0 {
		return "", invalidf("node_id %s: %s", shown(id), strings.Join(problems, "; "))
	}
	return id, nil
}
