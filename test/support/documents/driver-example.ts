import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The driver of docs/drivers.md, in a folder of its own. */
export interface DriverExample {
  readonly folder: string;
  readonly driver: string;
  readonly description: string;
  /** What the device has, by name. */
  readonly readDevice: () => Readonly<Record<string, string>>;
}

/** Writes it. Whoever calls this removes the folder. */
export function writeDriverExample(): DriverExample {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-driver-'));
  const driver = join(folder, 'driver.mjs');
  const description = join(folder, 'device.yaml');
  const device = join(folder, 'device.json');
  writeFileSync(driver, readBlock('js', 'createDriver'));
  const described = readBlock('yaml', 'LoadBalancerDevice');
  writeFileSync(description, described.replace(/units:\n(?: {4}- .*\n)+/, `units: [${device}]\n`));
  writeFileSync(join(folder, 'web.yaml'), readBlock('yaml', 'listeners'));
  writeFileSync(device, '{}');
  return {
    folder,
    driver,
    description,
    readDevice: () => JSON.parse(readFileSync(device, 'utf8')) as Readonly<Record<string, string>>,
  };
}

function readBlock(language: string, word: string): string {
  const blocks = readFileSync('docs/drivers.md', 'utf8').matchAll(/```(\w+)\n([^]*?)```/g);
  const [found] = [...blocks].filter(([, name, text = '']) => name === language && text.includes(word));
  if (found?.[2] === undefined) throw new Error(`docs/drivers.md has no block of ${language} with ${word}`);
  return found[2];
}
