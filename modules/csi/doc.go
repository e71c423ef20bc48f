// Package csi is the module of distort-csi, the CSI driver of DISTORT. Its
// program is in cmd/distort-csi; it exports no API.
package csi
