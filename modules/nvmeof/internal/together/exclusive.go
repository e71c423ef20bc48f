package together

import (
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Exclusive answers nvmeof.ErrDeviceInUse if one of the namespaces that are wanted
// has the device or an identity of a namespace of another subsystem. No target
// minds both, and then two owners write one device, or hosts silently ignore one
// of two namespaces with equal identity.
func Exclusive(want []nvmeof.Namespace, other string, has nvmeof.Namespace) error {
	for _, w := range want {
		what := ""
		switch {
		case has.DevicePath == w.DevicePath && w.DevicePath != "":
			what = "device " + w.DevicePath
		case has.UUID == w.UUID && !w.UUID.IsZero():
			what = "uuid " + w.UUID.String()
		case has.NGUID == w.NGUID && !w.NGUID.IsZero():
			what = "nguid " + w.NGUID.String()
		}
		if what != "" {
			return fmt.Errorf("namespace %d: %w: %s is in subsystem %s, namespace %d", w.NSID, nvmeof.ErrDeviceInUse, what, other, has.NSID)
		}
	}
	return nil
}
