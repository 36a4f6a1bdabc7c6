package main

import (
	"flag"
	"net"
)

// A pod: sends every packet back to where it came from.
func runEcho(words []string) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	listen := flags.String("listen", "", "address and port")
	if err := flags.Parse(words); err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp4", *listen)
	if err != nil {
		return err
	}
	buffer := make([]byte, 2048)
	for {
		count, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		// A client that is gone is no fault of the pod.
		_, _ = socket.WriteTo(buffer[:count], from)
	}
}
