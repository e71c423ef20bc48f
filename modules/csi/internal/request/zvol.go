package request

import (
	"regexp"
	"strconv"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Limits of a zvol's volblocksize in bytes; it is a power of two.
const (
	minBlockSize = 512
	maxBlockSize = 128 << 10
)

// compressions are the values of the ZFS property that a Volume can have.
var compressions = regexp.MustCompile(`^(on|off|lz4|lzjb|zle|gzip(-[1-9])?|zstd(-([1-9]|1[0-9]))?|zstd-fast(-([1-9]|10|20|30|40|50|60|70|80|90|100|500|1000))?)$`)

// setZvol reads how the zvol is made.
func (p *parameters) setZvol(values map[string]string) error {
	if v, given := values[ParameterVolumeManager]; given {
		return invalidf("parameter %s %s: belongs to %s %q, not %q", ParameterVolumeManager, shown(v), ParameterTargetBackend, v1alpha1.BackendKernel, backendZFS)
	}
	for _, key := range []string{ParameterNFSCIDRs, ParameterNFSAccessMode, ParameterNFSRootSquash} {
		if v, given := values[key]; given {
			return invalidf("parameter %s %s: needs %s %q", key, shown(v), ParameterTransport, transportNFS)
		}
	}
	if v, given := values[ParameterPool]; given {
		return invalidf("parameter %s %s: this version places volumes on any ready pool", ParameterPool, shown(v))
	}
	if v, given := values[ParameterBlockSize]; given {
		bytes, err := strconv.ParseInt(v, 10, 32)
		if err != nil || bytes < minBlockSize || bytes > maxBlockSize || bytes&(bytes-1) != 0 {
			return invalidf("parameter %s %s: want a power of two from %d to %d, in bytes", ParameterBlockSize, shown(v), minBlockSize, maxBlockSize)
		}
		p.blockSize = int32(bytes)
	}
	if v, given := values[ParameterCompression]; given {
		p.compression = v
		return checkCompression("parameter", v)
	}
	return nil
}

// checkCompression refuses what is no value of the property; in says where it came
// from.
func checkCompression(in, v string) error {
	if !compressions.MatchString(v) {
		return invalidf("%s %s %s: want a value of the ZFS property compression, such as \"lz4\", \"zstd\" or \"off\"", in, ParameterCompression, shown(v))
	}
	return nil
}
