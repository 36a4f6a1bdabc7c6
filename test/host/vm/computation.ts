/** Prints what comes of a number in registers for doubles, and in those that SHA-256 has: it is the same wherever it runs. */
import { createHash } from 'node:crypto';

let [sum, digest] = [Number(process.argv[2]), Buffer.alloc(1 << 16)];
for (let round = 1; round < 50; round += 1) {
  for (let step = 1; step < 20_000; step += 1) sum = Math.sqrt(sum * step + 1 / step);
  digest = Buffer.from(createHash('sha256').update(digest).update(String(sum)).digest());
}
process.stdout.write(`${sum} ${digest.toString('hex')}`);
