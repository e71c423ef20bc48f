package prepare

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/command"
	"github.com/distort-io/distort/e2e/internal/kmod"
)

// Names of the disk images in the artifacts.
const (
	rootDisk  = "root.ext4"
	labDisk   = "lab.ext4"
	imageDisk = "images.ext4"
)

// Sizes given to mke2fs; the files are sparse.
const (
	rootDiskSize  = "4G"
	labDiskSize   = "1G"
	imageDiskSize = "6G"
)

// guestModules are put on the lab's disk, with what they depend on: transports
// and targets of NVMe-oF, soft-RoCE, file systems, and what pod networks need.
var guestModules = []string{
	"nvme", "nvme-tcp", "nvme-rdma", "nvme-fabrics", "nvme-loop", "nvmet", "nvmet-tcp", "nvmet-rdma", "configfs",
	"crc32_generic", "crc32c_generic", "rdma_rxe", "rdma_ucm", "ib_uverbs", "ib_umad",
	"ext4", "xfs", "overlay", "loop", "null_blk", "dm-mod", "dm-delay", "dm-flakey", "brd",
	"bridge", "br_netfilter", "veth", "dummy", "tun", "af_packet", "sch_netem", "sch_tbf",
	"nf_tables", "nft_compat", "nft_chain_nat", "nft_ct", "nft_masq", "xt_MASQUERADE", "xt_conntrack", "xt_comment", "xt_mark",
	"xt_addrtype", "xt_nat", "xt_tcpudp", "xt_multiport", "xt_REDIRECT", "xt_statistic", "nf_conntrack", "nf_nat",
	"ip_tables", "iptable_nat", "iptable_filter", "iptable_mangle", "virtio_rng",
}

// rootDiskStep makes the disk that every guest boots from.
func rootDiskStep() Step {
	return Step{
		Name: "root-disk", Summary: "the guests' root disk", Needs: []string{"guest-tree", "packages"},
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("root-disk 2").String("size", rootDiskSize)
			if err := w.AddArtifacts(key, "guest-tree"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: func(ctx context.Context, w *Workshop, dir string) error {
			tree, err := w.Artifact("guest-tree")
			if err != nil {
				return err
			}
			return makeFilesystem(ctx, w.Run, filepath.Join(tree, guestTree), filepath.Join(dir, rootDisk), rootDiskSize)
		},
	}
}

// labDiskStep makes the disk with the node's programs and kernel modules,
// mounted read-only by every guest. It is apart from the root because it
// changes at other times.
func labDiskStep() Step {
	return Step{
		Name: "lab-disk", Summary: "disk with containerd, kubelet and kernel modules", Needs: []string{"containerd", "kubernetes", "kernel", "packages"},
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("lab-disk 1").String("size", labDiskSize).Strings("modules", guestModules)
			if err := w.AddArtifacts(key, "containerd", "kubernetes", "kernel"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: buildLabDisk,
	}
}

func buildLabDisk(ctx context.Context, w *Workshop, dir string) error {
	tree := filepath.Join(dir, "tree")
	defer os.RemoveAll(tree)
	for step, programs := range map[string][]string{
		"containerd": {"containerd", "containerd-shim-runc-v2", "ctr"},
		"kubernetes": {"kubelet"},
	} {
		source, err := w.Artifact(step)
		if err != nil {
			return err
		}
		for _, program := range programs {
			if err := copyFile(filepath.Join(source, program), filepath.Join(tree, "bin", program), 0o755); err != nil {
				return err
			}
		}
	}
	if err := copyModules(ctx, w, filepath.Join(tree, "modules")); err != nil {
		return err
	}
	return makeFilesystem(ctx, w.Run, tree, filepath.Join(dir, labDisk), labDiskSize)
}

// copyModules puts decompressed modules below target/<release> and indexes
// them.
func copyModules(ctx context.Context, w *Workshop, target string) error {
	source, version, err := kernelModules(w)
	if err != nil {
		return err
	}
	index, err := kmod.Load(source)
	if err != nil {
		return err
	}
	modules, err := index.Closure(guestModules)
	if err != nil {
		return err
	}
	for _, module := range modules {
		content, err := moduleContent(ctx, w, filepath.Join(source, module))
		if err != nil {
			return err
		}
		path := filepath.Join(target, version, module)
		if filepath.Ext(path) == ".xz" {
			path = path[:len(path)-len(".xz")]
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	for _, list := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		if err := copyFile(filepath.Join(source, list), filepath.Join(target, version, list), 0o644); err != nil {
			return err
		}
	}
	// depmod wants the modules at lib/modules below its base.
	base, err := os.MkdirTemp(filepath.Dir(target), "depmod-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	if err := os.MkdirAll(filepath.Join(base, "lib"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(target, filepath.Join(base, "lib", "modules")); err != nil {
		return err
	}
	return w.Run.Run(ctx, "depmod", "-b", base, version)
}

// makeFilesystem makes an ext4 image of a directory's content. It has a small
// journal, because guests are killed and booted again from their disks.
func makeFilesystem(ctx context.Context, run command.Runner, source, image, size string) error {
	return run.Run(ctx, "mke2fs", "-q", "-t", "ext4", "-J", "size=16", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", "-d", source, image, size)
}

// copyFile copies a file, following links, and makes the directories above.
func copyFile(source, target string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return out.Close()
}
