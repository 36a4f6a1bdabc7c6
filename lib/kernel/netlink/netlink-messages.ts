/** One netlink message; linux/netlink.h, struct nlmsghdr. */
export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** What follows the header. */
  readonly data: Buffer;
}

/** The messages of one datagram, each whole. From a malformed one on, all is left out. */
export function parseMessages(datagram: Buffer): NetlinkMessage[] {
  const messages: NetlinkMessage[] = [];
  for (let at = 0; at + headerBytes <= datagram.length;) {
    const length = datagram.readUInt32LE(at);
    if (length < headerBytes || length > datagram.length - at) break;
    messages.push({
      type: datagram.readUInt16LE(at + 4),
      flags: datagram.readUInt16LE(at + 6),
      sequence: datagram.readUInt32LE(at + 8),
      data: datagram.subarray(at + headerBytes, at + length),
    });
    at += align(length);
  }
  return messages;
}

/** Reads an answer where it stands in what the kernel sent: from `start`, after its header, to `end`. What is sent is nobody else's. */
export type VisitAnswer = (datagram: Buffer, start: number, end: number) => void;

/** Reads one datagram of the answers to the question of a number; answers what is no answer: their end, and all after it. */
export type ReadDatagram = (datagram: Buffer, sequence: number) => readonly NetlinkMessage[];

/** Reads datagrams by a visit of each answer. */
export function visitWith(visit: VisitAnswer): ReadDatagram {
  return (datagram, sequence) => {
    for (let at = 0; at + headerBytes <= datagram.length;) {
      const length = datagram.readUInt32LE(at);
      if (length < headerBytes || length > datagram.length - at) break;
      const type = datagram.readUInt16LE(at + 4);
      if (type === NLMSG_DONE || type === NLMSG_ERROR) return parseMessages(datagram.subarray(at));
      if (datagram.readUInt32LE(at + 8) === sequence) visit(datagram, at + headerBytes, at + length);
      at += align(length);
    }
    return [];
  };
}

/** The type of a message that ends the answers, with an error or the number 0: linux/netlink.h. */
export const NLMSG_ERROR = 2;

/** The type of the message that ends a list: linux/netlink.h. */
export const NLMSG_DONE = 3;

/** Attribute type to value, of the attributes that start at `offset`, each whole. A malformed rest is left out. */
export function parseAttributes(message: Buffer, offset: number): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  visitAttributes(message, offset, message.length, (type, start, end) => {
    attributes.set(type, message.subarray(start, end));
  });
  return attributes;
}

/**
 * Visits the attributes from `start` to `end` where they stand, each whole and in their order; a type can come more than once. A malformed
 * rest is left out. The quick way where there are many messages.
 */
export function visitAttributes(message: Buffer, start: number, end: number, visit: VisitAttribute): void {
  for (let at = start; at + attributeHeaderBytes <= end;) {
    const length = message.readUInt16LE(at);
    if (length < attributeHeaderBytes || length > end - at) return;
    visit(message.readUInt16LE(at + 2) & attributeTypeMask, at + attributeHeaderBytes, at + length);
    at += align(length);
  }
}

/** The value of the first attribute of a type, of those that start at `offset`; undefined where none is whole. Quicker than a map of all. */
export function findAttribute(message: Buffer, offset: number, type: number): Buffer | undefined {
  const at = locateAttribute(message, offset, message.length, type);
  return at === -1 ? undefined : message.subarray(at, findValueEnd(message, at));
}

/** Where that value begins, of the attributes from `start` to `end`; -1 where none is whole. For messages of which there are thousands. */
export function locateAttribute(message: Buffer, start: number, end: number, type: number): number {
  for (let at = start; at + attributeHeaderBytes <= end;) {
    const length = message.readUInt16LE(at);
    if (length < attributeHeaderBytes || length > end - at) return -1;
    if ((message.readUInt16LE(at + 2) & attributeTypeMask) === type) return at + attributeHeaderBytes;
    at += align(length);
  }
  return -1;
}

/** Where a value ends that `locateAttribute` has found. */
export function findValueEnd(message: Buffer, at: number): number {
  return at - attributeHeaderBytes + message.readUInt16LE(at - attributeHeaderBytes);
}

/** An attribute's type, and from where to where its value stands. */
export type VisitAttribute = (type: number, start: number, end: number) => void;

/** One message to the kernel, padded to a multiple of four. `flags` are those beside NLM_F_REQUEST. */
export function renderMessage(
  { type, payload, flags }: { type: number; payload: Buffer; flags: number },
  sequence: number,
): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(headerBytes + payload.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(NLM_F_REQUEST | flags, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, payload, Buffer.alloc(-payload.length & 3)]);
}

// linux/netlink.h
const NLM_F_REQUEST = 0x001;

/** One attribute, as it stands in a message: padded to a multiple of four. `isNested` where it is made of others. */
export function renderAttribute(type: number, value: Buffer, isNested = false): Buffer {
  const attribute = Buffer.alloc(align(attributeHeaderBytes + value.length));
  attribute.writeUInt16LE(attributeHeaderBytes + value.length, 0);
  attribute.writeUInt16LE(isNested ? type | NLA_F_NESTED : type, 2);
  value.copy(attribute, attributeHeaderBytes);
  return attribute;
}

const headerBytes = 16;
const attributeHeaderBytes = 4;

/** The two high bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
const NLA_F_NESTED = 0x8000;
const attributeTypeMask = 0x3fff;

/** Messages and attributes start at multiples of four. */
function align(length: number): number {
  return (length + 3) & ~3;
}
