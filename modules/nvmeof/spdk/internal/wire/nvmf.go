package wire

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Subsystem is one NVMe-oF subsystem.
type Subsystem struct {
	NQN           string      `json:"nqn"`
	Subtype       string      `json:"subtype"`
	Listeners     []Address   `json:"listen_addresses"`
	AllowAnyHost  bool        `json:"allow_any_host"`
	Hosts         []Host      `json:"hosts"`
	Serial        string      `json:"serial_number"`
	Model         string      `json:"model_number"`
	MaxNamespaces uint32      `json:"max_namespaces"`
	Namespaces    []Namespace `json:"namespaces"`
}

// Host is one entry of an allow-list.
type Host struct {
	NQN string `json:"nqn"`
}

// Namespace is one namespace.
type Namespace struct {
	NSID  uint32 `json:"nsid,omitempty"`
	Bdev  string `json:"bdev_name"`
	NGUID string `json:"nguid,omitempty"` // 32 digits, read in upper case
	UUID  string `json:"uuid,omitempty"`
}

// Address is a transport address.
type Address struct {
	Transport string `json:"trtype"`
	Family    string `json:"adrfam"`
	Address   string `json:"traddr"`
	Service   string `json:"trsvcid"`
}

// Controller is a host's association with a subsystem.
type Controller struct {
	Host string `json:"hostnqn"`
}

// QueuePair is one connection of a controller.
type QueuePair struct {
	State string `json:"state"`
	Host  string `json:"hostnqn"`
}

// QueueEnabled is the state of a queue pair whose host can send commands.
const QueueEnabled = "enabled"

// ByNQN are the parameters of the methods that take a subsystem's name.
type ByNQN struct {
	NQN string `json:"nqn"`
}

const discovery = "Discovery"

// Subsystems reads all NVMe subsystems, without those for discovery.
func Subsystems(ctx context.Context, client *rpc.Client) ([]Subsystem, error) {
	var all []Subsystem
	if err := client.Call(ctx, "nvmf_get_subsystems", nil, &all); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s Subsystem) bool { return s.Subtype == discovery }), nil
}

// FindSubsystem reads one subsystem; nil if there is none.
func FindSubsystem(ctx context.Context, client *rpc.Client, nqn string) (*Subsystem, error) {
	var found []Subsystem
	err := client.Call(ctx, "nvmf_get_subsystems", ByNQN{nqn}, &found)
	var refused *rpc.Error
	switch {
	case errors.Is(err, syscall.ENODEV):
		return nil, nil
	case errors.As(err, &refused): // a version without the parameter
		if found, err = Subsystems(ctx, client); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	if i := slices.IndexFunc(found, func(s Subsystem) bool { return s.NQN == nqn }); i >= 0 {
		return &found[i], nil
	}
	return nil, nil
}

// Controllers reads who is connected to a subsystem. A subsystem that does not
// exist has none.
func Controllers(ctx context.Context, client *rpc.Client, nqn string) ([]Controller, error) {
	var found []Controller
	err := ofSubsystem(ctx, client, "nvmf_subsystem_get_controllers", nqn, &found)
	return found, err
}

// QueuePairs reads the connections of a subsystem. A subsystem that does not
// exist has none.
func QueuePairs(ctx context.Context, client *rpc.Client, nqn string) ([]QueuePair, error) {
	var found []QueuePair
	err := ofSubsystem(ctx, client, "nvmf_subsystem_get_qpairs", nqn, &found)
	return found, err
}

// ofSubsystem reads something of a subsystem. That it is missing is answered with
// "Invalid parameters", like everything.
func ofSubsystem(ctx context.Context, client *rpc.Client, method, nqn string, result any) error {
	err := client.Call(ctx, method, ByNQN{nqn}, result)
	var refused *rpc.Error
	if !errors.As(err, &refused) || errors.Is(err, rpc.ErrNoMethod) {
		return err
	}
	sub, findErr := FindSubsystem(ctx, client, nqn)
	if findErr != nil || sub != nil {
		return errors.Join(err, findErr)
	}
	return nil
}

// Exporting returns who exports a bdev: "subsystem NQN, namespace N", or nothing.
func Exporting(all []Subsystem, bdev string) (nqn string, nsid uint32) {
	for _, s := range all {
		for _, ns := range s.Namespaces {
			if ns.Bdev == bdev {
				return s.NQN, ns.NSID
			}
		}
	}
	return "", 0
}

// ObjectBdev is the name of a bdev for its writers (rpc.Client.Begin). A writer takes
// a store or a subsystem first, then bdevs in the order of their names, then
// ObjectExports.
func ObjectBdev(name string) string { return "bdev " + name }

// ObjectSubsystem is the name of a subsystem for its writers.
func ObjectSubsystem(nqn string) string { return "subsystem " + nqn }

// ObjectDrive is the name of an attached drive for its writers.
func ObjectDrive(name string) string { return "drive " + name }

// ObjectStore is the name of an lvstore for its writers.
func ObjectStore(name string) string { return "lvstore " + name }

// ObjectExports is the name of who exports what, for those who change that.
const ObjectExports = "exports"
