package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/distort-io/distort/e2e/internal/debian"
)

// release is the Debian release the host must be and the guests are made of.
const release = "bookworm"

// hostPackages are what the lab needs on the host: the machine emulator, the
// maker of the guests' root, tools for networks, file systems and modules.
var hostPackages = []string{
	"qemu-system-x86", "qemu-utils", "seabios", "ipxe-qemu", "mmdebstrap", "iproute2", "e2fsprogs", "kmod", "xz-utils", "zstd", "ca-certificates",
}

// browserPackages are what looks at the trace page in a test.
var browserPackages = []string{"chromium-headless-shell"}

// compilerPackages build kernel modules, with the compiler of Debian's kernel.
var compilerPackages = []string{"gcc-12", "libc6-dev", "make"}

// packagesStep installs those packages that are missing on the host.
func packagesStep(name, summary string, packages []string) Step {
	return Step{
		Name: name, Summary: summary, Lane: LaneDebian,
		Build: func(ctx context.Context, w *Workshop, _ string) error {
			missing, err := debian.Missing(ctx, w.Run, packages)
			if err != nil || len(missing) == 0 {
				return err
			}
			if os.Geteuid() != 0 {
				return fmt.Errorf("packages %v are missing and only root can install them", missing)
			}
			w.Announce()
			return debian.Install(ctx, w.Run, missing)
		},
	}
}

// releaseSources returns the host's package sources for the guests' release, with
// these components beside main.
func releaseSources(components ...string) ([]debian.Source, error) {
	codename, err := debian.Codename("/etc/os-release")
	if err != nil {
		return nil, err
	}
	if codename != release {
		return nil, errors.New("the lab needs a Debian " + release + " host, this one is " + codename)
	}
	host, err := debian.HostSources("/")
	if err != nil {
		return nil, err
	}
	return debian.ForRelease(host, release, components...)
}
