package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
)

const (
	// mirrorImageBytes is the length of what the mirror serves.
	mirrorImageBytes = 1 << 20
	// mirrorDiskBytes is the size of the disk that it says it holds.
	mirrorDiskBytes = 2 << 30
	qcow2ClusterLog = 16
)

// mirror stands for every server of images in a simulation: whatever the URL,
// it has an empty qcow2 disk.
type mirror struct{}

// RoundTrip answers GET and HEAD without leaving the process.
func (mirror) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	res := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Length": {strconv.Itoa(mirrorImageBytes)}, "Etag": {`"simulated"`}},
		ContentLength: mirrorImageBytes, Body: http.NoBody, Request: req,
	}
	if req.Method == http.MethodGet {
		res.Body = io.NopCloser(bytes.NewReader(emptyQcow2()))
	}
	return res, req.Context().Err()
}

// emptyQcow2 returns a version 3 header of a disk without content, padded.
func emptyQcow2() []byte {
	b := make([]byte, mirrorImageBytes)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], qcow2ClusterLog)
	be.PutUint64(b[24:], mirrorDiskBytes)
	be.PutUint32(b[36:], 4)                  // entries of the first-level table
	be.PutUint64(b[40:], 3<<qcow2ClusterLog) // its offset
	be.PutUint64(b[48:], 1<<qcow2ClusterLog) // offset of the reference counts
	be.PutUint32(b[56:], 1)                  // their clusters
	be.PutUint32(b[96:], 4)                  // 16-bit reference counts
	be.PutUint32(b[100:], 104)               // length of this header
	return b
}
