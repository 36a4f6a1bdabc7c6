import { beforeAll, describe, expect, test } from '@jest/globals';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { makeFolderEach } from '../support/network/own-folder.ts';
import { dirname, join, resolve } from 'node:path';
import { execa } from 'execa';
import { readComponents } from '../support/image/sbom.ts';

/** As dpkg-query of Debian 12 prints them for scripts/sbom.mjs: of one source, of another name, of another version too. */
const lines = [
  'bash\t5.2.15-2+b7\tamd64\tbash\t5.2.15-2',
  'conntrack\t1:1.4.7-1+b2\tamd64\tconntrack-tools\t1:1.4.7-1',
  'nftables\t1.0.6-2+deb12u2\tamd64\tnftables\t1.0.6-2+deb12u2',
  'libc6\t2.36-9+deb12u14\tamd64\tglibc\t2.36-9+deb12u14',
];

const nameToCopyright = {
  bash: "On Debian systems it is in `/usr/share/common-licenses/GPL-3'.\n",
  conntrack:
    'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nLicense: GPL-2+\n text\n',
  nftables: 'Format: 1.0\n\nLicense: GPL-2\n\nLicense: GPL-2 or GPL-3\n\nLicense: GPL-2\n',
  libc6: 'Redistribution and use are permitted.\n',
};

const debian = 'arch=amd64&distro=debian-12';

let folder: string;

beforeAll(async () => {
  await execa('scripts/build');
});

makeFolderEach('sbom', (made) => {
  folder = made;
  write('os-release', 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n');
  write('packages', `${lines.join('\n')}\n`);
  for (const [name, text] of Object.entries(nameToCopyright)) write(`doc/${name}/copyright`, text);
  symlinkSync(resolve('node_modules/.bin/node'), join(folder, 'node'));
});

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

const print = async (...words: readonly string[]) =>
  (
    await execa('node_modules/.bin/node', ['scripts/sbom.mjs', folder, ...words], {
      stripFinalNewline: false,
    })
  ).stdout;

async function find(name: string) {
  const { components } = JSON.parse(await print()) as {
    readonly components: readonly {
      readonly name: string;
      readonly purl: string;
      readonly licenses: readonly { readonly license: { readonly name: string } }[];
    }[];
  };
  const found = components.filter((component) => component.name === name);
  return found.map(({ purl, licenses }) => ({ purl, licenses: licenses.map(({ license }) => license.name) }));
}

describe('scripts/sbom.mjs', () => {
  test('prints a valid SBOM of the packages in dist/, of Debian, and Node.js', async () => {
    const { version, optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      readonly version: string;
      readonly optionalDependencies: Readonly<Record<string, string>>;
    };
    const bundled = JSON.parse(readFileSync('dist/packages.json', 'utf8')) as readonly {
      readonly name: string;
      readonly version: string;
    }[];
    const expected = [
      `vipnat ${version}`,
      `node ${optionalDependencies[`node-linux-${process.arch}`]}`,
      ...bundled.map((each) => `${each.name} ${each.version}`),
      ...lines.map((line) => line.split('\t', 2).join(' ')),
    ];
    expect(await readComponents(await print())).toEqual(expected.sort());
  });

  test('leaves out Debian where only the program is named, and Node.js where it is not', async () => {
    const names = async () => (await readComponents(await print())).map((each) => each.split(' ')[0]);
    const inImage = await names();
    for (const name of ['packages', 'os-release']) rmSync(join(folder, name));
    const inExecutable = await names();
    const onlyInImage = inImage.filter((name) => !inExecutable.includes(name));
    expect(onlyInImage.join(' ')).toBe('bash conntrack libc6 nftables');
    rmSync(join(folder, 'node'));
    expect(inExecutable.filter((name) => name !== 'node')).toEqual(await names());
  });

  test('refuses a program that is not the pinned Node.js', async () => {
    rmSync(join(folder, 'node'));
    write('node', 'another program');
    await expect(print()).rejects.toThrow(/node is not the pinned Node\.js \d/);
  });

  test("prints one of keepalived's image, which has Debian's packages and nothing else", async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly version: string };
    rmSync(join(folder, 'node'));
    const expected = [`vipnat-keepalived ${version}`, ...lines.map((line) => line.split('\t', 2).join(' '))];
    expect(await readComponents(await print('keepalived'))).toEqual(expected.sort());
  });

  test('prints the same bytes again, in whatever order dpkg names the packages', async () => {
    const first = await print();
    write('packages', `${lines.toReversed().join('\n')}\n`);
    expect(await print()).toBe(first);
  });

  test.each([
    ['bash', `bash@5.2.15-2+b7?${debian}&upstream=bash%405.2.15-2`, ['GPL-3']],
    ['conntrack', `conntrack@1:1.4.7-1+b2?${debian}&upstream=conntrack-tools%401%3A1.4.7-1`, ['GPL-2+']],
    ['nftables', `nftables@1.0.6-2+deb12u2?${debian}`, ['GPL-2', 'GPL-2 or GPL-3']],
    ['libc6', `libc6@2.36-9+deb12u14?${debian}&upstream=glibc`, ['/usr/share/doc/libc6/copyright']],
  ])('names %s with its source and the licenses of its copyright file', async (name, purl, licenses) => {
    expect(await find(name)).toEqual([{ purl: `pkg:deb/debian/${purl}`, licenses }]);
  });

  test('says nothing of the license of a package that came without its copyright file', async () => {
    rmSync(join(folder, 'doc/bash'), { recursive: true });
    await expect(readComponents(await print())).rejects.toThrow(/bash.* has no license/);
  });
});
