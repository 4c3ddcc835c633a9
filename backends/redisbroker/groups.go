package redisbroker

import (
	"hash/fnv"
	"strconv"
	"sync"
)

// queueGroups is the number of groups into which queues are divided by their names. In a Cluster, a
// command or a script can use only keys of one slot; the queues of a group share a slot. So a process
// needs at most so many connections to wait for all its queues, and a claim of many queues takes at
// most so many calls. With more groups, queues could be spread over more nodes.
const queueGroups = 16

const clusterSlots = 16384 // fixed by Redis Cluster

// groupOf returns the group of a queue.
func groupOf(queue string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(queue)) // never fails
	return int(hash.Sum32() % queueGroups)
}

// groupTags are the hash tags of each group, by prefix.
var groupTags sync.Map // prefix → *[queueGroups]string

// tagsOf returns hash tags whose slots are evenly spread over the nodes of a Cluster, each of which
// has a range of slots. The prefix decides where the first slot is, so that several prefixes in one
// Cluster can be shards.
func tagsOf(prefix string) *[queueGroups]string {
	if known, ok := groupTags.Load(prefix); ok {
		return known.(*[queueGroups]string)
	}
	const apart = clusterSlots / queueGroups
	start, tags := slotOfTag(prefix), new([queueGroups]string)
	for n, missing := 0, queueGroups; missing > 0; n++ {
		tag := strconv.FormatInt(int64(n), 36)
		from := slotOfTag(tag) - start + clusterSlots
		if group := from / apart % queueGroups; from%apart == 0 && tags[group] == "" {
			tags[group] = tag
			missing--
		}
	}
	known, _ := groupTags.LoadOrStore(prefix, tags)
	return known.(*[queueGroups]string)
}

// crcTable has the remainders of CRC16 of the XMODEM kind, by byte. Without it, finding the tags of a prefix would
// take milliseconds.
var crcTable = func() (table [256]uint16) {
	for n := range table {
		crc := uint16(n) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
		table[n] = crc
	}
	return table
}()

// slotOfTag returns the slot of keys with this hash tag.
func slotOfTag(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return int(crc) % clusterSlots
}
