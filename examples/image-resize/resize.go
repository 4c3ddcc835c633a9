package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // formats that can be read
	_ "image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/image/draw"

	"github.com/seed81422ce9/jobs"
)

const (
	side = 200 // pixels; a thumbnail fits into a square

	// maxPixels limits the memory of a picture, four bytes per pixel, because a small file
	// can declare a huge picture.
	maxPixels = 50_000_000
)

// resize writes a thumbnail as PNG, and replaces an existing one. Data that is not a
// picture is not retried.
func resize(data []byte, file string) (Thumbnail, error) {
	header, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return Thumbnail{}, fmt.Errorf("%w: this is not a picture: %v", jobs.SkipRetry, err)
	}
	if header.Width*header.Height > maxPixels {
		return Thumbnail{}, fmt.Errorf("%w: %d by %d pixels are too many", jobs.SkipRetry, header.Width, header.Height)
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return Thumbnail{}, fmt.Errorf("%w: the picture is broken: %v", jobs.SkipRetry, err)
	}
	size := picture.Bounds()
	scale := min(side/float64(max(size.Dx(), size.Dy())), 1)
	small := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(size.Dx())*scale)), max(1, int(float64(size.Dy())*scale))))
	draw.ApproxBiLinear.Scale(small, small.Bounds(), picture, size, draw.Src, nil)

	file = strings.TrimSuffix(file, filepath.Ext(file)) + ".png"
	f, err := os.CreateTemp(filepath.Dir(file), ".part-*") // readers see the whole file or none
	if err != nil {
		return Thumbnail{}, err
	}
	err = errors.Join(png.Encode(f, small), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return Thumbnail{}, errors.Join(err, os.Remove(f.Name()))
	}
	return Thumbnail{File: file, Width: small.Rect.Dx(), Height: small.Rect.Dy()}, nil
}
